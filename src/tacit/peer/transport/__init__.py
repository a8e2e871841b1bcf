"""Links between peers: frames, codec, both ends of a link, and admission of connections."""

"""Links between peers: frames, codec, both ends of a link, and the doors before them."""

"""The contract between methods and runtimes, errors, and limits on inputs."""

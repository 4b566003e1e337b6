"""The sub-commands that ask the running daemon of this node, over its control socket."""

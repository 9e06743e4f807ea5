"""Where the ranks of a live job are, and whom they wait for."""

"""distdoctor: says which node, link or setting keeps a PyTorch distributed job from starting."""

__version__ = "0.1.0"

"""Rendezvous: every process of a check joins the store of its run."""

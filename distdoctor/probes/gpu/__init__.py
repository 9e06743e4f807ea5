"""Probes of GPUs, their driver and the files of NCCL."""

"""GPUs, their driver and the files of NCCL."""

"""The least that every training job does: form the group, reduce a small and a larger tensor, meet at a barrier."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for elements in (4, 300_000):
    value = torch.ones(elements)
    dist.all_reduce(value)
    assert value[0].item() == dist.get_world_size()
dist.barrier()
dist.destroy_process_group()

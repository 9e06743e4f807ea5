"""The script does not know the launcher's --local-rank.

## What you see
`error: unrecognized arguments: --local-rank=0` (or `--local_rank=0`) with the script's usage.

## Why it happens
torch.distributed.launch passes --local-rank (before torch 2.0 --local_rank) to the script, which defines another
spelling or none. DeepSpeed passes --local_rank.

## Fix
Start with torchrun and read os.environ['LOCAL_RANK'], or accept both spellings in the script:
`parser.add_argument('--local-rank', '--local_rank', type=int)`.

## Confirm with
`python train.py --local-rank=0 --local_rank=0 --help` prints the usage without an error.

## When it is harmless
Never.

## See also
environment/missing-variable
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOG = (Line("unrecognized arguments: ", "unrecognized arguments: .{0,200}--local[-_]rank"),)

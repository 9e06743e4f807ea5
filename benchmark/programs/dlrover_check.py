"""DLRover's network check with torchrun's launch flags: `dlrover-run --network-check` before an empty script.

DLRover's master is part of a Kubernetes job elsewhere; here node 0 starts one at the job's own master address and port.
"""

import argparse
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
for flag, default in (("nnodes", "1"), ("nproc-per-node", "1"), ("node-rank", "0"), ("master-port", "29500")):
    parser.add_argument(f"--{flag}", default=default)
parser.add_argument("--master-addr", default="127.0.0.1")
flags, _ = parser.parse_known_args()

where = {"DLROVER_MASTER_ADDR": f"{flags.master_addr}:{flags.master_port}"}
nodes = {"NODE_RANK": flags.node_rank, "NODE_ID": flags.node_rank, "NODE_NUM": flags.nnodes}
env = {**os.environ, **where, **nodes, "NODE_TYPE": "worker", "ELASTIC_JOB_NAME": "check"}
master = None
if flags.node_rank == "0":
    words = ["dlrover.python.master.main", "--platform", "local", "--job_name", "check"]
    words += ["--port", flags.master_port, "--node_num", flags.nnodes]
    master = subprocess.Popen([sys.executable, "-m", *words], env=env, stdout=subprocess.DEVNULL, stderr=sys.stderr)
words = ["--network-check"]
words += [f"--nnodes={flags.nnodes}", f"--nproc-per-node={flags.nproc_per_node}", "--max-restarts=0"]
done = subprocess.run([sys.executable, "-m", "dlrover.trainer.torch.main", *words, os.devnull], env=env, check=False)
if master is not None:
    master.kill()
sys.exit(done.returncode)

"""Start lines of public scripts for engines and RL frameworks, with the plan that each has.

Each line is as its script's shell makes it; names, users and addresses are replaced. ``plan`` is NODES x RANKS, #NODE
RANK, MASTER:PORT (of c10d, its endpoint) and the sizes of its mesh; a ``?`` is a value that the machine has. Where the
line itself names no plan, ``said`` is in the sentence about it.
"""

# ruff: noqa: E501 - a line is a line, however long

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Script:
    """Start line, where it is from, and what is to be read in it."""

    source: str
    line: str
    plan: str = ""
    said: str = ""
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    before: str = ""


DYNAMO = "python3 -m dynamo.vllm --model meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 16 --nnodes 2 --node-rank {} --master-addr 10.0.0.1 --enforce-eager"
VERL = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae data.train_batch_size=1024 actor_rollout_ref.rollout.tensor_model_parallel_size=4 trainer.n_gpus_per_node=8 trainer.nnodes={} trainer.save_freq=20"
OPENRLHF = "python3 -m openrlhf.cli.train_ppo_ray --ref_num_nodes 1 --ref_num_gpus_per_node 2 --actor_num_nodes 1 --actor_num_gpus_per_node 4 --vllm_num_engines 2 --vllm_tensor_parallel_size 2"
FACTORY = {"FORCE_TORCHRUN": "1", "MASTER_ADDR": "192.168.0.1", "MASTER_PORT": "29500"}
SWIFT = {"NNODES": "2", "MASTER_PORT": "29500", "NPROC_PER_NODE": "4"}
MULTI_NODE = "distributed_type: DEEPSPEED\nmain_process_ip: '10.0.0.1'\nmain_process_port: 29500\nnum_machines: 2\nnum_processes: 8  # world size\nrdzv_backend: static\n"

SCRIPTS = [
    Script("ai-dynamo/dynamo examples/backends/vllm/launch/multi_node_tp.sh", DYNAMO.format(0), "2x8 #0 10.0.0.1:29501 tp=16"),
    Script("ai-dynamo/dynamo examples/backends/vllm/launch/multi_node_tp.sh, worker", f"{DYNAMO.format(1)} --headless", "2x8 #1 10.0.0.1:29501 tp=16"),
    Script("ai-dynamo/dynamo examples/backends/vllm/launch/multi_node_tp.sh, frontend", "python3 -m dynamo.frontend", "1x?", "dynamo.frontend"),
    Script("olcf/olcf_containers_examples frontier/sample_apps/vllm/start_head_bb.sh", "vllm serve --chat-template ./chattemplate.jinja --tensor-parallel-size 8 --pipeline-parallel-size 2 --distributed-executor-backend ray /mnt/model --host 0.0.0.0 --port 8000", "1x?", "Ray"),
    Script("olcf/olcf_containers_examples frontier/sample_apps/vllm/start_head_bb.sh, ray", "ray start --node-ip-address=10.0.0.1 --head --port=6379", "1x?", "ray start"),
    Script("ggaaooppeenngg/vllm run_d.sh", "env VLLM_LOGGING_LEVEL=INFO CUDA_VISIBLE_DEVICES=4,5,6,7 vllm serve /mnt/model --port 8200 --max-model-len 4096 --tensor_parallel_size=4 --trust-remote-code --kv-transfer-config {\"kv_connector\":\"PyNcclConnector\",\"kv_role\":\"kv_consumer\"}", "1x4 tp=4"),
    Script("li2haipeng/vllm run_server.sh", "python -m vllm.entrypoints.openai.api_server --model /mnt/model --tensor-parallel-size 8 --max-model-len 8192 --port 8088", "1x8 tp=8"),
    Script("tests of vLLM's data parallel mode, serve_headless_mpi_template.sh", "vllm serve facebook/opt-125m --headless --enforce-eager --data-parallel-size 2 --data-parallel-size-local 1 --data-parallel-start-rank 1 --data-parallel-address 127.0.0.1", "1x2 dp=2"),
    Script("vLLM below LeaderWorkerSet, worker", "vllm serve /mnt/model --headless --data-parallel-size 2 --data-parallel-size-local 1 --data-parallel-start-rank 1 --data-parallel-address 10.0.0.1 --data-parallel-rpc-port 13389 --tensor-parallel-size 16", "2x16 #1 10.0.0.1:13389 dp=2 tp=16"),
    Script("prime-rl run_inference_child2.sh", "uv run inference @ infer.toml --model.name Qwen/Qwen3-32b --data-parallel-size 6 --tensor-parallel-size 4 --data-parallel-size-local 2 --headless", "", "inference"),
    Script("S-GRPO deploy_dpsk/serving.sh", "python3 -m sglang.launch_server --model-path /mnt/model --tp 16 --dist-init-addr 10.0.0.1:29500 --nnodes 2 --node-rank 0 --trust-remote-code --host 0.0.0.0 --port 30000", "2x8 #0 10.0.0.1:29500 tp=16"),
    Script("SGLang behind a wrapper with another libstdc++, slurm 3/4.sh", "env NCCL_SOCKET_IFNAME=bond0 /opt/mooncake-libs/run-with-new-libstdc.sh /app/bin/python3 -m sglang.launch_server --model-path /mnt/model --tp-size 16 --host 10.0.0.41 --port 30000 --dist-init-addr 10.0.0.93:5000 --nnodes 2 --node-rank 1 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998", "2x8 #1 10.0.0.93:5000 tp=16"),
    Script("LongBench launchserver.sh", "python -m sglang.launch_server --model /mnt/model --port 30004 --dp-size 4 --host 0.0.0.0", "1x4 dp=4"),
    Script("sgl-project/sglang ms_example/start_server.sh", "python3 -m sglang.launch_server --model-path /home/ckpt/Qwen3-8B --host 0.0.0.0 --port 37654 --device npu --tp-size 1 --dp-size 1", "1x1"),
    Script("volcengine/verl docs/start/multinode.rst", f"ray job submit --address=http://127.0.0.1:8265 --runtime-env=verl/trainer/runtime_env.yaml --no-wait -- {VERL.format(2)}", "1x?", "2 x 8"),
    Script("volcengine/verl examples/ppo_trainer/run_qwen2.5-32b.sh", VERL.format(4), "1x?", "4 x 8"),
    Script("OpenRLHF/OpenRLHF examples/scripts/train_ppo_llama_ray_70b.sh", f"ray job submit --address=http://127.0.0.1:8265 --runtime-env-json={{\"working_dir\":\"/openrlhf\"}} --no-wait -- {OPENRLHF}", "1x?", "Ray"),
    Script("swe_bench_rl run_rl.sh", "uv run ray start --head --port 6380 --num-gpus 8", "1x?", "ray start"),
    Script("huggingface/trl docs/source/grpo_trainer.md", "srun --nodes=1 --ntasks=1 --nodelist=gpu5 trl vllm-serve --model Qwen/Qwen2.5-72B --tensor_parallel_size 8", "1x8 tp=8", before="srun --nodes=1 --ntasks=1 --nodelist=gpu5"),
    Script("open-r1 commands.md, server", "nohup bash -c 'CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model Qwen/Qwen2.5-7B-Instruct'", "1x1"),
    Script("open-r1 commands.md, trainer", "nohup bash -c 'CUDA_VISIBLE_DEVICES=1,2,3,4,5,6,7 ACCELERATE_LOG_LEVEL=info accelerate launch --config_file recipes/accelerate_configs/zero2.yaml --num_processes=7 src/open_r1/grpo.py --config recipes/custom.yaml'", "1x7"),
    Script("open-r1-coderm run.sh", "python -m trl.scripts.vllm_serve --model KAKA22/CodeRM-8B --tensor_parallel_size 1 --port 8000 --enable_prefix_caching true", "1x1"),
    Script("hiyouga/LLaMA-Factory examples/README.md", "llamafactory-cli train examples/train_full/qwen3_full_sft.yaml", "2x? #1 192.168.0.1:29500", env={**FACTORY, "NNODES": "2", "NODE_RANK": "1"}),
    Script("hiyouga/LLaMA-Factory examples/README.md, elastic", "llamafactory-cli train examples/train_full/qwen3_full_sft.yaml", "1:3x? 192.168.0.1:29500", env={**FACTORY, "MIN_NNODES": "1", "MAX_NNODES": "3", "MAX_RESTARTS": "3", "RDZV_ID": "llamafactory"}),
    Script("LLaMA-Factory run_ds.sh", "deepspeed --num_gpus 8 --num_nodes 2 --hostfile hostfile --master_addr 10.0.0.12 randy/train.py", "2x8 10.0.0.12:29500", files={"hostfile": "gpu1 slots=8\ngpu2 slots=8\ngpu3 slots=8\n"}),
    Script("modelscope/ms-swift examples/train/multi-node/deepspeed/train.sh", "deepspeed --hostfile=./host.txt swift/cli/sft.py --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora", "2x2 worker-0:29500", files={"host.txt": "worker-0 slots=2\nworker-1 slots=2\n"}),
    Script("modelscope/ms-swift examples/train/multi-node/deepspeed/train.sh, its --include", "deepspeed --hostfile=./host.txt --include=worker-0:0@worker-1:1 swift/cli/sft.py --num_gpus 3", "2x1 worker-0:29500", files={"host.txt": "worker-0 slots=2\nworker-1 slots=2\n"}),
    Script("deepspeed_train_demo/cmd_demos.sh", "deepspeed --hostfile hostfile ds_train.py --epoch 1 --deepspeed --deepspeed_config ds_config.json", "1x?"),
    Script("modelscope/ms-swift examples/megatron/multi-node/node2.sh", "megatron sft --model Qwen/Qwen2.5-14B --tensor_model_parallel_size 4 --pipeline_model_parallel_size 1", "2x4 #1 10.0.0.1:29500 dp=2 tp=4", env={**SWIFT, "NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1"}),
    Script("modelscope/ms-swift examples/train/multi-node/swift/train_node1.sh", "swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type full", "2x4 #0 127.0.0.1:29500", env={**SWIFT, "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1"}),
    Script("modelscope/ms-swift examples/train/multi-node/accelerate/train_node2.sh", "accelerate launch --config_file ./multi_node.yaml --machine_rank 1 swift/cli/sft.py --model Qwen/Qwen2.5-7B-Instruct", "2x4 #1 10.0.0.1:29500", files={"multi_node.yaml": MULTI_NODE}),
    Script("axolotl-ai-cloud/axolotl docs/multi-node.qmd", "axolotl train config.yaml --launcher torchrun -- --nnodes 2 --nproc_per_node 8 --rdzv_id 17 --rdzv_backend c10d --rdzv_endpoint 10.0.0.1:29500", "2x8 10.0.0.1:29500"),
    Script("axolotl-ai-cloud/axolotl docs/cli.qmd", "axolotl train config.yml --launcher accelerate -- --config_file=accelerate_config.yml --num_processes=4", "1x4"),
    Script("mosaicml/composer docs/source/notes/distributed_training.rst", "composer -n 8 --stdout stdout_{rank}.log --stderr stderr_{rank}.log script.py", "1x8"),
    Script("Lightning-AI/pytorch-lightning docs/source-fabric/guide/multi_node/barebones.rst", "fabric run --node-rank=1 --main-address=10.10.10.16 --accelerator=cuda --devices=8 --num-nodes=2 train.py", "2x8 #1 10.10.10.16:29400"),
    Script("pytorch/torchtitan run_8node.sh", "srun -p llm_s -n 8 -N 8 --ntasks-per-node=1 --gpus-per-task=8 torchrun --nproc_per_node 8 --rdzv_backend c10d --rdzv_id 101 --rdzv_endpoint 10.0.0.12:29500 --local-ranks-filter 0 ./train.py", "1x8 10.0.0.12:29500", before="srun -p llm_s -n 8 -N 8 --ntasks-per-node=1 --gpus-per-task=8"),
    Script("bert_classifier, two machines", "mpirun -np 2 -H 10.0.0.1:1,10.0.0.2:1 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x PATH -mca pml ob1 -mca btl ^openib -mca btl_tcp_if_include ens3 python bert_classifier_main.py --do_train", "", before="mpirun -np 2 -H 10.0.0.1:1,10.0.0.2:1 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x PATH -mca pml ob1 -mca btl ^openib -mca btl_tcp_if_include ens3"),
    Script("a torchrun below srun and a shell", "srun --cpu-bind=none --ntasks-per-node=1 bash -c \"torchrun --nnodes=2 --nproc_per_node=4 --rdzv_id=151152 --rdzv_conf=is_host=\\$(((SLURM_NODEID)) && echo 0 || echo 1) --rdzv_backend=c10d --rdzv_endpoint=gpu1i:29500 python train.py\"", "", "is_host", before="srun --cpu-bind=none --ntasks-per-node=1"),
    Script("mae_shuffle run_pretrain.sh", "nohup python -m torch.distributed.launch --nnodes=2 --master_addr=10.0.0.13 --node_rank=1 --nproc_per_node=8 --master_port 23333 --use_env main_pretrain.py", "2x8 #1 10.0.0.13:23333"),
    Script("NVIDIA/nvidia-resiliency-ext docs/source/fault_tolerance", "ft_launcher --nnodes=2 --nproc-per-node=8 --rdzv-endpoint=10.0.0.1:29400 --ft-rank-heartbeat-timeout 30 --ft-ignore-missing-cfg --max-restarts=2 train.py", "2x8 10.0.0.1:29400"),
]  # fmt: skip

"""Lines that are written of failures of the stage process."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    (
        "process/killed-by-oom",
        "Nov 25 22:51:04 gpu03 systemd[1]: train.service: A process of this unit has been killed by the OOM killer.",
    ),
    ("process/killed-by-oom", "Nov 25 22:51:04 gpu03 systemd[1]: run-r1f3.scope: Failed with result 'oom-kill'."),
    (
        "process/killed-by-oom",
        "Nov 25 22:51:04 gpu03 systemd[1]: train.service: Main process exited, code=killed, status=9/KILL",
    ),
    ("process/killed-by-oom", "team-worker-1 exited with code 137"),  # docker compose
    (
        "process/crashed",
        "Nov 25 22:51:04 gpu03 systemd[1]: train.service: Main process exited, code=dumped, status=11/SEGV",
    ),
    ("process/killed-by-scheduler", "10/20/2025 10:18:40  M    walltime 3612 exceeded limit 3600"),
    ("process/killed-by-oom", "train.sh: Zeile 12: 48211 Getötet                python train.py --config a.yaml"),
    ("process/killed-by-oom", "train.sh: 行 12: 48211 已杀死               python train.py --config a.yaml"),
    ("process/killed-by-oom", "run.sh: ligne 3 : 771 Processus arrêté      python train.py"),
    ("process/killed-by-oom", "run.sh: 줄 3: 771 죽었음                     python train.py"),
    ("process/killed-by-oom", "\t(0) Abnormal termination (signal 9)"),  # HTCondor's log of a job
    ("process/crashed", "\t(0) Abnormal termination (signal 11)"),
    ("process/killed-by-oom", "\tError from slot1_4@gpu21: Docker job has gone over memory limit of 40960 Mb"),
    (
        "process/killed-by-oom",
        "\tError from slot1_1@gpu21: Job has gone over cgroup memory limit of 9000 megabytes. Last measured usage: "
        "14326 megabytes.  Consider resubmitting with a higher request_memory.",
    ),
    (
        "process/crashed",
        "train.sh: Zeile 12: 48211 Speicherzugriffsfehler  (Speicherabzug geschrieben) python train.py",
    ),
    ("process/crashed", "train.sh：行 5: 2381 段错误               （核心已转储）python train.py"),
    ("process/killed-by-scheduler", "[2026-11-02T14:00:19.330] Time limit exhausted for JobId=551"),
    (
        "process/killed-by-oom",
        "Nov 02 10:05:11 gn02 systemd-oomd[811]: Killed /user.slice/train.scope due to memory pressure for "
        "/user.slice being 81.22% > 50.00% for > 20s with reclaim activity",
    ),
    (
        "process/exception",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 2, limit: 1",
    ),
    ("process/exception", "Error: No such option: --lr-decay Did you mean --lr?"),
    ("process/exception", "Error: Invalid value for '--batch-size': 'x' is not a valid integer."),
    ("process/exception", "pyarrow.lib.ArrowInvalid: JSON parse error: Missing a closing quotation mark in string"),
    ("process/exception", "ZeroDivisionError: division by zero"),
    ("process/exception", "  what():  CUDA error: an illegal memory access was encountered"),
    ("process/exception", 'ErrorMessage "RuntimeError: The expanded size of the tensor (513) must match"'),
    ("process/crashed", "Floating point exception (core dumped)"),
    ("process/killed-by-oom", "Exited with signal termination: 9, and core dumped."),
    ("process/killed-by-oom", "make: *** [Makefile:8: train] Error 137"),
    ("process/crashed", "  exitcode  : -11 (pid: 77)"),
    ("process/crashed", "srun: error: n01: task 3: Segmentation fault (core dumped)"),
    (
        "process/killed-by-oom",
        "Memory on the node (IP: 10.0.62.231, ID: e5d9) where the task (task ID: 4353, name=f, pid=11362, memory "
        "used=1.25GB) was running was 27.71GB / 28.80GB (0.962273), which exceeds the memory usage threshold of 0.95.",
    ),
    ("process/killed-by-scheduler", "Message:  Pod was terminated in response to imminent node shutdown."),
    (
        "process/killed-by-oom",
        "(raylet) node_manager.cc:3496: 10 Workers (tasks / actors) killed due to memory\n"
        "pressure (OOM), 0 Workers crashed due to other reasons",
    ),
    ("process/killed-by-oom", "  traceback : Signal 9 (SIGKILL) received by PID 14750"),
    (
        "process/killed-by-oom",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have been OOM Killed.",
    ),
    (
        "process/killed-by-oom",
        "[9.100000] Memory cgroup out of memory: Killed process 4321 (python) total-vm:1kB, anon-rss:1kB",
    ),
    (
        "process/killed-by-oom",
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
    ),
    (
        "process/killed-by-scheduler",
        "slurmstepd: error: *** STEP 494583.0 ON n01 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***",
    ),
    ("process/terminal-closed", '/home/u/utils.sh: line 114: 1508441 Hangup                  "${CMD[@]}" 2>&1'),
    ("process/exception", "/var/spool/slurmd/job7/slurm_script: line 41: llamafactory-cli: command not found"),
    ("process/exception", "sh: 1: accelerate: not found"),
    (
        "process/terminal-closed",
        "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers",
    ),
    (
        "process/terminal-closed",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 8812 got signal: 1",
    ),
    (
        "process/terminated",
        "WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers",
    ),
    ("process/terminated", "lightning.pytorch.utilities.exceptions.SIGTERMException"),
    (
        "process/cuda-in-fork",
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
        "multiprocessing, you must use the 'spawn' start method",
    ),
    ("process/killed-by-oom", "srun: error: gpu-12: task 3: Out Of Memory"),
    (
        "process/killed-by-oom",
        "slurmstepd-gpu12: error: Detected 1 oom-kill event(s) in StepId=2.0. Some of your processes may have been "
        "killed by the cgroup out-of-memory handler.",
    ),
    ("process/exception", "slurmstepd-gpu12: error: execve(): python: No such file or directory"),
    ("process/killed-by-oom", "slurmstepd: error: Exceeded job memory limit at some point."),
    ("process/killed-by-oom", "srun: error: gpu-12: tasks 0-7: Killed"),
    ("process/killed-by-oom", "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed)."),
    ("process/killed-by-oom", "=   KILLED BY SIGNAL: 9 (Killed)"),
    ("process/killed-by-oom", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 10Mi."),
    ("process/killed-by-scheduler", "srun: error: Node failure on gpu-12"),
    (
        "process/killed-by-scheduler",
        "salloc: Job 36126573 has exceeded its time limit and its allocation has been revoked",
    ),
    ("process/crashed", "!!!!!!! Segfault encountered !!!!!!!"),
    ("process/crashed", "=   EXIT CODE: 139"),
    ("process/killed-by-scheduler", "MOAB_INFO:  job exceeded wallclock limit"),
    ("process/killed-by-scheduler", "The user-provided time limit for job execution has been reached:"),
    (
        "process/exception",
        "torchrun: error: the following arguments are required: training_script, training_script_args",
    ),
    ("process/exception", "slurmstepd: error: execve(): python: No such file or directory"),
    (
        "process/exception",
        "../aten/src/ATen/native/cuda/Indexing.cu:1284: indexSelectLargeIndex: block: [134,0,0], thread: "
        "[0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
    ),
    (
        "process/exception",
        "(VllmWorkerProcess pid=1775) ERROR 09-23 10:49:22 worker_base.py:467] ValueError: no such model",
    ),
    (
        "process/killed-by-oom",
        "[2612362.231458] python invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), "
        "order=0, oom_score_adj=829",
    ),
    ("process/crashed", "malloc(): invalid size (unsorted)"),
    ("process/crashed", "free(): double free detected in tcache 2"),
    ("process/crashed", "[rank3]: corrupted size vs. prev_size while consolidating"),
    ("process/crashed", "*** Error in `python': double free or corruption (!prev): 0x00007f31a8002010 ***"),
    ("process/crashed", "*** stack smashing detected ***: terminated"),
    (
        "process/crashed",
        "(pid=26955) *** SIGSEGV (@0x0) received by PID 26955 (TID 0x7f28d7e0b740) from PID 0; stack trace: ***",
    ),
    ("process/crashed", "python3: ../csrc/pool.cpp:120: void Pool::free(void*): Assertion `block != nullptr' failed."),
    (
        "process/killed-by-scheduler",
        "UserError: AzureMLCompute job failed. PreemptionError: Nodes of this job got pre-empted.",
    ),
    (
        "process/crashed",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -8) local_rank: 0 (pid: 71) "
        "of binary: python",
    ),
    (
        "process/crashed",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 3221225477) local_rank: 0 "
        "(pid: 71) of binary: python",
    ),
    ("process/crashed", "Windows fatal exception: access violation"),
    ("process/crashed", "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGFPE"),
    ("process/killed-by-oom", "zsh: killed     torchrun --nproc_per_node 2 train.py"),
    ("process/killed-by-oom", "[1]  + 12345 killed     python train.py"),
    ("process/killed-by-oom", "Your session crashed after using all available RAM."),
    ("process/killed-by-oom", "OSError: [WinError 1455] The paging file is too small for this operation to complete."),
    (
        "process/killed-by-oom",
        "Nov 22 12:00:00 n3 systemd-oomd[500]: Killed /user.slice/job.scope due to memory used (1) / total (1)",
    ),
    (
        "process/killed-by-oom",
        "Nov 22 12:00:00 n3 earlyoom[500]: mem avail: 300 of 64000 MiB ( 0.47%), sending SIGKILL to process "
        '1234 uid 1000 "python"',
    ),
    (
        "process/crashed",
        "[ 1234.567890] traps: python3[1234] general protection fault ip:7f sp:7f error:0 in libtorch_cpu.so[7f+1000]",
    ),
    ("process/crashed", "      Exit Code:    139"),
    (
        "process/killed-by-oom",
        "The replica workerpool0-0 ran out-of-memory and exited with a non-zero status of 137(SIGKILL).",
    ),
    ("process/killed-by-scheduler", "TERM_CPULIMIT: job killed after reaching LSF CPU usage limit."),
    ("process/killed-by-scheduler", "Job was active longer than specified deadline"),
    ("process/killed-by-scheduler", "Host EC2 (instance i-0123) terminated."),
    ("process/killed-by-scheduler", "Normal  Preempted  1m  default-scheduler  Preempted by pod 1234 on node n3"),
    ("process/exception", "mpirun was unable to launch the specified application as it could not access"),
    ("process/killed-by-oom", "   State: OUT_OF_MEMORY (exit code 0)"),
    ("process/killed-by-oom", "   JobState=OUT_OF_MEMORY Reason=OutOfMemory Dependency=(null)"),
    ("process/killed-by-oom", "      `Run time 00:26:24, OUT_OF_MEMORY`"),
    ("process/killed-by-oom", "812.batch         batch                  acc         16 OUT_OF_ME+    0:125 "),
    ("process/killed-by-scheduler", "   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)"),
    ("process/killed-by-scheduler", "812_3            train        gpu        acc         16  NODE_FAIL      0:0 "),
    ("process/killed-by-scheduler", "Slurm Job_id=812 Name=train Ended, Run time 12:00:21, TIMEOUT, ExitCode 0"),
    (
        "process/timer-expired",
        "[INFO] 2026-01-01 00:00:00,000 file_based_local_timer: Successfully reaped worker=[1234] with signal=9",
    ),
    ("process/timer-expired", "INFO:timer.api:Successfully reaped worker=[1234]"),
    ("process/timer-expired", "Terminating the server process=[33] because of expired timers"),
    ("process/crashed", "x3200c0s13b0n0.hsn.cm.sirius.example.org: rank 1 died from signal 11 and dumped core"),
    ("process/killed-by-oom", "x3006c0s1b1n0.hsn.cm.polaris.example.org: rank 2 died from signal 9"),
    ("process/killed-by-oom", "      Exit Code:    137"),
    (
        "process/crashed",
        "Memory access fault by GPU node-1 (Agent handle: 0x1e9a5a0) on address 0x7f2a3c000000. Reason: Page "
        "not present or supervisor privilege.",
    ),
    ("process/killed-by-scheduler", "job preempted (node failure)"),
    (
        "process/exception",
        "python: error while loading shared libraries: libpython3.10.so.1.0: cannot open shared object file",
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "process/peer-died",
        "[1749803291.555759] [host0:7053 :0]  tcp_ep.c:1260 UCX  ERROR tcp_ep 0x3c502370 (state=CONNECTED): send(110) "
        "failed: Input/output error",
    ),
    ("process/peer-died", "W0613 08:28:11.555796    7053 ucx_utils.cpp:43] Unexpected UCX error: Endpoint timeout"),
    (
        "process/timer-expired",
        "[WARNING] [RankMonitorServer:34] Did not get subsequent heartbeat. Waited 171.92 seconds.",
    ),
    ("process/timer-expired", "[WARNING] [RankMonitorServer:5] Section 'step' has been open for 61.20 seconds."),
    ("process/exception", "   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)"),
    ("process/exception", "State: FAILED (exit code 1)"),
    ("process/exception", "Slurm Job_id=812 Name=train Failed, Run time 00:01:10, FAILED, ExitCode 1"),
    ("process/exception", "812.batch         batch                  acc         16     FAILED      1:0 "),
    ("process/killed-by-scheduler", "   JobState=CANCELLED Reason=None Dependency=(null)"),
    ("process/killed-by-scheduler", "State: CANCELLED (exit code 0)"),
    ("process/killed-by-scheduler", "812_3            train        gpu        acc         16 CANCELLED+      0:0 "),
    ("process/killed-by-scheduler", "811          train        gpu        acc         16 CANCELLED by 1000      0:0 "),
    ("process/exception", "No components were able to be opened in the pml framework."),
    ("process/waiting-in-user-code", "stacks: rank 2 in read (data.py:18), the 3 others in all_reduce (train.py:4)"),
    ("process/crashed", "[gpu01:193313] Signal: Aborted (6)"),
    (
        "process/exception",
        "Error: failed to run torchrun --nproc_per_node=4 --nnodes=1 --node_rank=0 train.py on 127.0.0.1",
    ),
    (
        "process/peer-died",
        "F0929 17:42:48.594200 1044529 client.h:77] Terminating process because the JAX distributed service detected "
        "fatal errors. This most likely indicates that another task died; see the other task logs for more details.",
    ),
    (
        "process/peer-died",
        "coordination_service.cc:954] /job:jax_worker/replica:0/task:37 has been set to ERROR in coordination service: "
        "UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout.",
    ),
    (
        "process/peer-died",
        "absl::Status: UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was "
        "preempted/died/restarted unexpectedly or this task is experiencing network issues.",
    ),
    ("process/peer-died", "  1 job process is considered dead (unreachable via the RAS network)"),
    ("process/peer-died", "  Missing communicator data from 2 ranks"),
    ("process/peer-died", "node_manager.cc:170: This node has beem marked as dead."),
    (
        "process/peer-died",
        "RuntimeError: tensorflow/compiler/xla/xla_client/mesh_service.cc:377 : Failed to meet rendezvous 'a': Socket",
    ),
    ("process/terminated", "mpirun noticed that process rank 0 with PID 5 on node n1 exited on signal 2 (Interrupt)."),
    ("process/exception", "mpirun noticed that process rank 0 with PID 399 on node n1 exited"),
    ("process/exception", "Error(s) in loading state_dict for Linear:"),
    (
        "process/exception",
        "Parameter at index 255 with name base_model.lora_B.weight has been marked as ready twice. This means that",
    ),
    (
        "process/exception",
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3 at iteration #3 invocation #2 "
        "(message='found NaN in local grad norm for bucket #0')",
    ),
    ("process/peer-died", "An MPI communication peer process has unexpectedly disconnected.  This"),
    ("process/exception", "It looks like pmix_init failed for some reason; your parallel process is"),
    ("process/exception", "[2023-10-13 11:31:28,593] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 249"),
    (
        "process/crashed",
        ":0:rocdevice.cpp :3586: Callback: Queue 0x7f35e8100000 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An "
        "HSAIL operation resulted in a hardware exception. code: 0x1016",
    ),
    ("process/crashed", "Fatal Python error: Aborted"),
    ("process/exception", " returned non-zero exit status 1."),
    ("process/terminated", " 20%|##   | 117/558 [00:10<00:20, 28.3it/s]Terminated"),
    ("process/killed-by-scheduler", "start-worker GCP Metadata Service says termination is imminent"),
    ("process/peer-died", "ray.exceptions.ActorHandleNotFoundError: created in job 01000000"),
    ("process/terminated", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 23 got signal: 2"),
    (
        "process/rank0-died",
        "RuntimeError: [7] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
        "c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer",
    ),
    (
        "process/peer-died",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:41904",
    ),
    (
        "process/rank0-died",
        "[W TCPStore.cpp:106] [c10d] recvValue failed on SocketImpl(fd=67, addr=[n1]:4, "
        "remote=[n0]:29500): failed to recv, got 0 bytes",
    ),
    (
        "process/peer-died",
        "node:1:2 [0] misc/socket.cc:57 NCCL WARN socketProgress: Connection closed by remote peer n2<43210>",
    ),
    ("process/exception", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
    ("process/exception", "  exitcode  : 1 (pid: 1622990)"),
    (
        "process/exception",
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
    ),
    ("process/crashed", "  exitcode  : -6 (pid: 16)"),
    ("process/killed-by-scheduler", "slurmstepd: error: *** STEP 12.0 ON n01 CANCELLED AT 2024-01-01T00:00:00 ***"),
    ("process/terminated", "KeyboardInterrupt"),
    (
        "process/killed-by-scheduler",
        "slurmstepd: error: *** JOB 42 ON n1 CANCELLED AT 2024-10-09T23:25:32 DUE to SIGNAL Killed ***",
    ),
    (
        "process/killed-by-scheduler",
        "slurmstepd: error: *** JOB 42 STEPD TERMINATED ON n1 AT 2024-10-09T23:25:32 DUE TO JOB NOT ENDING "
        "WITH SIGNALS ***",
    ),
    (
        "process/exception",
        "slurmstepd: error: *** STEP 42.0 ON n1 FAILED (non-zero exit code or other failure mode) ***",
    ),
    ("process/exception", '[rank4]:   File "/home/u/compile_fx.py", line 685, in _compile_fx_inner'),
    (
        "process/exception",
        "n1:1:2 [0] include/alloc.h:125 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
    ),
    ("process/exception", "  traceback : Signal 6 (SIGABRT) received by PID 189"),
    ("process/crashed", "srun: error: gpu-12: task 3: Aborted (core dumped)"),
    ("process/terminated", "srun: error: gpu-12: task 3: Terminated"),
    ("process/terminated", "asyncio.exceptions.CancelledError"),
    (
        "process/peer-died",
        "n1:1:2 [0] NCCL WARN ncclOsSocketPollConnect to 10.0.0.1<1> failed with error Connection refused",
    ),
    (
        "process/peer-died",
        "n1:1:2 [0] NCCL WARN communicator encountered a fatal error (detected in ncclCommGetAsyncError)",
    ),
    (
        "process/peer-died",
        "Exception raised from ncclCommWatchdog at "
        "/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1901 (most recent call first):",
    ),
    ("process/peer-died", "An ORTE daemon has unexpectedly failed after launch and before"),
    ("process/rank0-died", "RuntimeError: [1] is setting up NCCL communicator"),
    ("process/rank0-died", "Failed to connect to client mesh master: t1v-n-5db2-w-0.us-central1-a.c.p.internal:58799"),
    (
        "process/killed-by-oom",
        "(raylet) A worker died or was killed while executing a task by an unexpected system error.",
    ),
    (
        "process/exception",
        "(VllmWorkerProcess pid=759) ERROR 07-24 08:26:01 multiproc_worker_utils.py:226]   File "
        '"/usr/lib/vllm/worker.py", line 132, in init_device',
    ),
    ("process/exception", "Error for Training job a: Failed. Reason: AlgorithmError: ExecuteUserScriptError:"),
    ("process/peer-died", "RuntimeError: Checkpoint background process is dead. Exit code: -9"),
    (
        "process/peer-died",
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading.",
    ),
    ("process/peer-died", "RuntimeError: Background thread for TCPStore died"),
    ("process/exception", "RuntimeError: A compilation subprocess exited unexpectedly. This is likely due to a crash."),
    ("process/exception", "RuntimeError: Pin memory thread exited unexpectedly"),
    (
        "process/exception",
        "ray.exceptions.RayTaskError(RuntimeError): ray::TrainTrainable.train() (pid=1876, ip=100.97.252.234)",
    ),
    ("process/exception", "  Process name: [[25735,1],1]"),
    ("process/exception", "   Process name: [prterun-n01-9911@1,3]"),
    ("process/crashed", "(RayTrainWorker pid=7315) *** SIGABRT received at time=1734086759 ***"),
    ("process/terminated", "*** SIGTERM received by PID 4811 (TID 4811) on cpu 5 from PID 13; stack trace: ***"),
    (
        "process/killed-by-oom",
        "RuntimeError: unable to mmap 1024 bytes from file </torch_1_2_3>: Cannot allocate memory (12)",
    ),
    (
        "process/peer-died",
        "MPICH ERROR [Rank 8281] [job id 1410467.0] [Wed Aug 23 06:05:55 2023] [frontier01982] - "
        "Abort(136982671) (rank 8281 in comm 0): Fatal error in PMPI_Waitall: Other MPI error, error stack:",
    ),
    (
        "process/peer-died",
        "Abort(1090831) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:",
    ),
    (
        "process/peer-died",
        "CRITICAL 04-16 11:53:49 [core_client.py:359] Got fatal signal from worker processes, shutting down.",
    ),
    ("process/crashed", " 135: Program received signal SIGABRT: Process abort signal."),
    (
        "process/peer-died",
        "RuntimeError: NCCL communicator encountered error set by ProcessGroupNCCL: remote process exited",
    ),
    (
        "process/peer-died",
        "node1:1234:1250 [0] proxy.cc:1500 NCCL WARN [Service thread] Could not receive type from localRank "
        "3, res=3, closed=0",
    ),
    ("process/killed-by-oom", "node1:1234:1250 [0] include/alloc.h:60 NCCL WARN Failed to malloc 8388608 bytes"),
    (
        "process/terminated",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -2) local_rank: 0 (pid: 71) "
        "of binary: python",
    ),
    (
        "process/terminated",
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGTERM",
    ),
    (
        "process/killed-by-scheduler",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -10) local_rank: 0 (pid: 71) "
        "of binary: python",
    ),
    ("process/crashed", "The Kernel crashed while executing code in the current cell or a previous cell."),
    ("process/exception", "      Exit Code:    1"),
    ("process/exception", "Warning  BackOff  1m  kubelet  Back-off restarting failed container"),
    ("process/killed-by-scheduler", "TERM_OWNER: job killed by owner."),
    (
        "process/peer-died",
        "[1700000000.123456] [n1:1234 :0]  ib_mlx5_log.c:177  UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB",
    ),
    ("process/exception", "RuntimeError: Initialization failed. Please see the error messages above."),
    (
        "process/exception",
        "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous "
        "error messages for a cause.",
    ),
    (
        "process/peer-died",
        "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the "
        "executor was unexpectedly terminated. This could be caused by a segmentation fault while calling "
        "the function",
    ),
    ("process/peer-died", "RuntimeError: One of the subprocesses has abruptly died during map operation."),
    ("process/peer-died", "TimeoutError: RPC call to sample_tokens timed out."),
    (
        "process/peer-died",
        "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for "
        "root cause.",
    ),
    ("process/crashed", "x3006c0s1b1n0.hsn.cm.polaris.example.org: rank 2 died from signal 6 and dumped core"),
    ("process/exception", "x3006c0s1b0n0.hsn.cm.polaris.example.org: rank 0 exited with code 2"),
    ("process/terminated", "x3103c0s7b0n0.hsn.cm.polaris.example.org: rank 0 died from signal 15"),
    ("process/exception", "[host1:71142] *** An error occurred in MPI_Init_thread"),
    ("process/exception", "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 2"),
    (
        "process/exception",
        "[WARN] PLE 0608 plexec One of MPI processes was aborted.(rank=0)(nid=0xff33000e)(CODE=1903,302825,256)",
    ),
    ("process/exception", "\t(1) Normal termination (return value 1)"),  # HTCondor's log of a job
    ("process/terminated", "\t(0) Abnormal termination (signal 15)"),
    ("process/crashed", "\t(0) Abnormal termination (signal 6)"),
    ("process/killed-by-scheduler", "012 (2201.000.000) 2026-03-02 10:31:07 Job was held."),
    (
        "process/exception",
        "ERROR: Job 1 failed with return code list: [137, 1] (A worker failed with return code 1, SkyPilot cleaned up "
        "the processes on other nodes with return code 137)",
    ),
    (
        "process/peer-died",
        "[rank3] WatchTasksAsync failed for task 3: UNAVAILABLE: failed to connect to all addresses; last error: "
        "UNKNOWN: ipv4:10.0.0.7:13305: Failed to connect to remote host: Connection refused",
    ),
    (
        "process/peer-died",
        "E xla/xla/pjrt/distributed/client.cc:96] Coordination service agent in error status: UNAVAILABLE: closed",
    ),
    (
        "process/exception",
        "Nov 25 22:51:04 gpu03 systemd[1]: train.service: Main process exited, code=exited, status=1/FAILURE",
    ),
    ("process/exception", "worker-1 exited with code 1"),  # docker compose
    ("process/exception", "worker-1   0/1     Error     0          18m"),  # kubectl get pods
    ("process/exception", "team-a   worker-1   0/1     Evicted   0          18m"),
    ("process/exception", "prterun has exited due to process rank 2 with PID 17 on node n3 exiting"),
)

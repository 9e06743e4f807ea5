"""Lines that are written of failures of the stage gpu."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    ("gpu/none-visible", "ROCk module is NOT loaded, possibly no GPU devices"),
    ("gpu/fewer-than-ranks", "AssertionError: Invalid device id"),
    (
        "gpu/out-of-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 79.15 GiB of which 1.06 GiB is free.",
    ),
    (
        "gpu/out-of-memory",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity) If reserved "
        "memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
    ),
    (
        "gpu/out-of-memory",
        "RuntimeError: MPS backend out of memory (MPS allocated: 9.05 GB, max allowed: 18.13 GB). Tried to allocate "
        "256 bytes on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 (may cause system failure).",
    ),
    (
        "gpu/out-of-memory",
        "ValueError: Free memory on device (2.1/79.1 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    ),
    ("gpu/out-of-memory", "node:1:2 [3] include/alloc.h:48 NCCL WARN Cuda failure 2 'out of memory'"),
    (
        "gpu/hardware",
        "[123456.789012] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ),
    ("gpu/hardware", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("gpu/busy", "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"),
    ("gpu/fewer-than-ranks", "RuntimeError: CUDA error: invalid device ordinal"),
    ("gpu/none-visible", "RuntimeError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!"),
    ("gpu/none-visible", "RuntimeError: No CUDA GPUs are available"),
    ("gpu/none-visible", 'docker: could not select device driver "" with capabilities: [[gpu]].'),
    ("gpu/none-visible", "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"),
    ("gpu/mask-mismatch", "ValueError: No slot '1' specified on host 'localhost'"),
    (
        "gpu/one-visible-per-rank",
        "node:1:2 [1] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
    ),
    ("gpu/driver-library-mismatch", "Failed to initialize NVML: Driver/library version mismatch"),
    (
        "gpu/driver-library-mismatch",
        "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown.",
    ),
    ("gpu/arch-not-in-build", "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"),
    (
        "gpu/fabric-manager-not-running",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
    ),
    (
        "gpu/compat-library",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
        "attempted on non supported HW",
    ),
    ("gpu/arch-not-in-build", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("gpu/fewer-than-ranks", "AssertionError: local rank 4 exceeds available GPUs in CUDA_VISIBLE_DEVICES=0,1,2,3"),
    ("gpu/arch-not-in-build", "RuntimeError: HIP error: invalid device function"),
    (
        "gpu/none-visible",
        "RuntimeError: FSDP needs a non-CPU accelerator device, but no accelerator device is detected.",
    ),
    (
        "gpu/fewer-than-ranks",
        "ValueError: device_id 3 is out of range. Please use a device index less than the number of "
        "accelerators available: 2.",
    ),
    ("gpu/hardware", "[ 1234.567890] amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware errors detected in umc block"),
    ("gpu/hardware", "[ 1234.567890] nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),
    ("gpu/hardware", "[ 1234.567890] NVRM: Xid (PCI:0000:3b:00): 46, pid=1234, name=python3, Ch 00000008"),
    (
        "gpu/hardware",
        "[ 1234.567890] NVRM: Xid (PCI:0000:3b:00): 147, TREX Fatal XC0 i0 Link 04 (0x0409a0c2 0x00000008 0x00000001)",
    ),
    (
        "gpu/hardware",
        "[ 1234.567890] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU "
        "Reset Required)",
    ),
    (
        "gpu/none-visible",
        "torch.AcceleratorError: CUDA error: the remote procedural call between the MPS server and the MPS client "
        "failed",
    ),
    ("gpu/none-visible", "gpu0301:842624:842643 [0] misc/nvmlwrap.cc:74 NCCL WARN Failed to open libnvidia-ml.so.1"),
    (
        "gpu/none-visible",
        "RuntimeError: CUDA error: the hardware resources required to support device connections have been exhausted",
    ),
    ("gpu/none-visible", "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"),
    ("gpu/mask-mismatch", "RuntimeError: HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES"),
    ("gpu/none-visible", "Unable to open /dev/kfd read-write: Permission denied"),
    ("gpu/none-visible", "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-51-generic"),
    ("gpu/none-visible", "docker: Error response from daemon: unknown or invalid runtime name: nvidia."),
    (
        "gpu/none-visible",
        "docker: Error response from daemon: CDI device injection failed: unresolvable CDI devices "
        "nvidia.com/gpu=all: unknown",
    ),
    (
        "gpu/fabric-manager-not-running",
        "[Jan 10 2026 10:11:12] [ERROR] [tid 1234] fabric manager NVIDIA GPU driver interface version 550.54.14 don't "
        "match with driver version 550.54.15. Please update with matching NVIDIA driver package.",
    ),
    ("gpu/busy", "RuntimeError: synStatus=20 [Device already acquired] Device acquire failed."),
    (
        "gpu/arch-not-in-build",
        "rocBLAS error: Cannot read /opt/torch/lib/rocblas/library/TensileLibrary.dat: No such file or directory",
    ),
    ("gpu/none-visible", "  what():  HIP error: hipErrorNoDevice"),
    (
        "gpu/out-of-memory",
        "oneCCL: ze_call.cpp:28 do_call: EXCEPTION: ze error at zeCommandQueueExecuteCommandLists, code: "
        "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
    ),
    (
        "gpu/fewer-than-ranks",
        'RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "../aten/src/ATen/cuda/CUDAContext'
        '.cpp":49, please report a bug to PyTorch. device=1, num_gpus=1',
    ),
    (
        "gpu/none-visible",
        'docker: OCI runtime create failed: exec: "nvidia-container-runtime": executable file not found in $PATH',
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    ("gpu/hardware", "        Remapping Failure Occurred        : Yes"),
    ("gpu/hardware", "|ERR!  ERR!  ERR!             ERR! / 700W |      0MiB /  81559MiB |    ERR!      Default |"),
    ("gpu/hardware", "HW Exception by GPU node-2 (Agent handle: 0x55d0c3a0) reason :GPU Hang"),
    ("gpu/hardware", "n1:79:79 [2] misc/nvmlwrap.cc:180 NCCL WARN nvmlDeviceGetHandleByIndex(3) failed: Unknown Error"),
    (
        "gpu/none-visible",
        "stderr: nvidia-container-cli: initialization error: driver error: failed to process request: unknown",
    ),
    ("gpu/none-visible", "Failed to initialize NVML: Unknown Error"),
    ("gpu/none-visible", "torch/cuda/__init__.py:546: UserWarning: Can't initialize NVML"),
    ("gpu/hardware", "CUDA error: an illegal instruction was encountered"),
    ("gpu/hardware", "misc/nvmlwrap.cu:170 WARN nvmlDeviceSetCpuAffinity() failed: Unknown Error"),
    ("gpu/cannot-compute", "THCudaCheck FAIL file=THCGeneral.c line=70 error=30 : unknown error"),
    ("gpu/cannot-compute", "n1: Test CUDA failure common.cu:730 'unknown error'"),
    (
        "gpu/none-visible",
        "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment, "
        "e.g. changing env variable CUDA_VISIBLE_DEVICES after program start.",
    ),
    (
        "gpu/hardware",
        "n1:77:99 [3] misc/nvmlwrap.cc:183 NCCL WARN nvmlDeviceGetHandleByPciBusId() failed: Unknown Error",
    ),
    ("gpu/cannot-compute", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    ("gpu/hardware", "May 27 16:50:10 fedora kernel: NVRM: GPU 0000:09:00.0: RmInitAdapter failed! (0x22:0x56:894)"),
    ("gpu/none-visible", "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu."),
    ("gpu/out-of-memory", "node1:1234:1250 [0] include/alloc.h:180 NCCL WARN Failed to CUDA calloc async 4 bytes"),
    ("gpu/hardware", "[ 1234.567890] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"),
    (
        "gpu/hardware",
        "[ 1234.567890] nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 32 egress "
        "non-posted PRIV error (First)",
    ),
    (
        "gpu/hardware",
        "[ 1234.567890] NVRM: Xid (PCI:0000:3b:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)",
    ),
    ("gpu/hardware", "[ 1234.567890] NVRM: Xid (PCI:0000:3b:00): 137, RLW_RXPIPE interrupt hit on link 11: PRIV Error"),
    ("gpu/hardware", "n1:1:2 [0] include/alloc.h:123 NCCL WARN Cuda failure 999 'unknown error'"),
    ("gpu/hardware", "RuntimeError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error"),
    ("gpu/none-visible", "CUDA failure 304: OS call failed or operation not supported on this OS ; GPU=0"),
    ("gpu/hardware", "[ 1234.567890] pcieport 0000:00:1c.0: AER: Uncorrected (Fatal) error received: 0000:00:1c.0"),
    ("gpu/none-visible", "modprobe: ERROR: could not insert 'nvidia': No such device"),
    ("gpu/none-visible", "[   12.345678] NVRM: No NVIDIA GPU found."),
    ("gpu/none-visible", "[   12.345678] NVRM: GPU 0000:01:00.0 is already bound to nouveau."),
    ("gpu/hardware", "[ 1234.567890] amdgpu 0000:01:00.0: ring sdma0 timeout, signaled seq=309, emitted seq=313"),
    ("gpu/hardware", "node1: Test CUDA failure common.cu:297 'an illegal memory access was encountered'"),
    (
        "gpu/hardware",
        "cudaFreeAsync failed to free 0xc663e3400: INTERNAL: CUDA error: CUDA_ERROR_ILLEGAL_INSTRUCTION: an illegal "
        "instruction was encountered",
    ),
    (
        "gpu/hardware",
        "E tensorflow/stream_executor/cuda/cuda_driver.cc:1011] could not synchronize on CUDA "
        "context: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered ::",
    ),
    ("gpu/hardware", "    GPU Recovery Action                   : Drain and Reset"),
    ("gpu/hardware", "[   15.147180] amdgpu 0000:1b:00.0: amdgpu: Fatal error during GPU init"),
)

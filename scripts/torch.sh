# Sourced by venv.sh: which build of torch goes into the virtual environment, and its installation.
#
# PINNED_TORCH=1 wants the version of constraints.txt, also where there is another torch.
# TORCH_INDEX=URL takes it from there; TORCH_INDEX= (empty) from where pip is set up to look, and asks nothing else.

CPU_INDEX=https://download.pytorch.org/whl/cpu

# Whether this machine has NVIDIA's driver. Without it the CUDA build can do no more than the CPU build.
nvidia_driver() {
    [ -e /proc/driver/nvidia ] || [ -e /dev/nvidiactl ] || command -v nvidia-smi >/dev/null ||
        PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -q 'libcuda\.so'
}

# local_torch PYTHON: the wheel of torch in the folders that pip is set up to look in (find-links). Asks no index.
local_torch() {
    "$1" -m pip install --dry-run --ignore-installed --no-deps --no-index --disable-pip-version-check \
        -q -c constraints.txt --report - torch 2>/dev/null | grep -o '"url": *"file:[^"]*"' | head -1 | cut -d'"' -f4
}

# Whether someone has set pip up for an index of their own, or for none: that is where it is to look then.
own_index() {
    [ -n "${PIP_INDEX_URL:-}${PIP_NO_INDEX:-}" ] ||
        "$venv/bin/python" -m pip config list 2>/dev/null | grep -Eq "\.(index-url|no-index)="
}

# Whether the CPU index is to be had and holds the pinned version; 20 s at most.
cpu_index_answers() {
    local version
    version=$(sed -n 's/^torch==//p' constraints.txt)
    timeout 20 "$venv/bin/python" -m pip index versions torch --index-url "$CPU_INDEX" --retries 0 --timeout 5 \
        2>/dev/null | grep -Fq "$version+cpu"
}

# has_torch VERSION: whether the environment has a torch that can be imported; with PINNED_TORCH=1, one of this version.
has_torch() {
    "$venv/bin/python" -c 'import sys, torch; sys.exit(sys.argv[1] not in ("", torch.__version__.partition("+")[0]))' \
        "${PINNED_TORCH:+$1}" 2>/dev/null
}

install_torch() {
    local version wheel cuda="PyPI's build"
    version=$(sed -n 's/^torch==//p' constraints.txt)
    if has_torch "$version"; then
        return
    fi
    [ "$(uname -m)" != x86_64 ] || cuda="PyPI's build with CUDA, about 2.7 GB to download"
    if [ -n "${TORCH_INDEX:-}" ]; then
        say "installing torch $version from $TORCH_INDEX"
        pip_install --index-url "$TORCH_INDEX" torch
    elif wheel=$(local_torch "$venv/bin/python") && [ -n "$wheel" ]; then
        wheel=${wheel##*/}
        say "installing torch $version: ${wheel//%2B/+}, which is on this machine"
        pip_install -q torch
    elif [ -n "${TORCH_INDEX+set}" ] || own_index; then
        say "installing torch $version from the index that pip is set up for (with CUDA it is some 2.7 GB)"
        pip_install torch
    elif nvidia_driver; then
        say "installing torch $version: $cuda"
        pip_install torch
    elif cpu_index_answers; then
        say "installing torch $version: the CPU build (no NVIDIA driver here), about 0.2 GB to download from $CPU_INDEX"
        pip_install --index-url "$CPU_INDEX" torch
    else
        say "installing torch $version: $cuda (no NVIDIA driver here, but $CPU_INDEX, with the CPU build, is not to be had)"
        pip_install torch
    fi
}

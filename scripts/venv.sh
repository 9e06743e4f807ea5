# Sourced by the other scripts: makes .venv with torch and this package, once, and leaves $venv set to it.
# The arguments of make_venv are the extras to install, such as "dev".

cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${DISTDOCTOR_VENV:-.venv}
export PIP_DISABLE_PIP_VERSION_CHECK=1 # its notice is not about this project

say() { printf '== %s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# apt_install PROGRAM:PACKAGE...: install the packages whose programs are not there.
apt_install() {
    local missing=() pair
    for pair in "$@"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null || { [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; }; then
        say "not installed, and no apt-get or root to do it: ${missing[*]} (the tests that need them are skipped)"
        return 0
    fi
    say "installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get install -y -q --no-install-recommends "$@" || { apt-get update -q && apt-get install -y -q --no-install-recommends "$@"; }' \
        sh "${missing[@]}" >&2
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    say "no Python 3.10 or newer found; name one with PYTHON=/path/to/python"
    return 1
}

new_venv() {
    local python=$1
    shift
    "$python" -c 'import ensurepip, venv' 2>/dev/null || {
        local package
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        apt_install "no-such-program:$package"
    }
    say "making $venv"
    "$python" -m venv "$@" "$venv"
}

install_torch() {
    if "$venv/bin/python" -c 'import torch' 2>/dev/null; then
        return
    fi
    say "installing torch ($(grep '^torch' constraints.txt))"
    # PyPI's build brings gigabytes of CUDA; TORCH_INDEX=https://download.pytorch.org/whl/cpu takes the small CPU build.
    "$venv/bin/python" -m pip install -q -c constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
}

make_venv() {
    local extras=${1:-} python stamp wanted
    if [ ! -x "$venv/bin/python" ]; then
        python=$(find_python)
        # A torch that is already on this machine is the one to check. (That of a virtual environment which is active
        # would not be seen through --system-site-packages; only what lies behind it would.)
        if "$python" -c 'import sys, torch; sys.exit(sys.prefix != sys.base_prefix)' 2>/dev/null; then
            new_venv "$python" --system-site-packages
        else
            new_venv "$python"
        fi
    fi
    install_torch
    stamp=$venv/.installed${extras:+-$extras}
    wanted=$(cat pyproject.toml constraints.txt | cksum)
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        say "installing distdoctor${extras:+ with its tools for $extras}"
        "$venv/bin/python" -m pip install -q -c constraints.txt -e ".${extras:+[$extras]}"
        echo "$wanted" >"$stamp"
    fi
}

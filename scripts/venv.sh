# Sourced by the other scripts: makes .venv with torch and this package, once, and leaves $venv set to it.
# The arguments of make_venv are the extras to install, such as "dev". Everything it says goes to stderr.
#
# PYTHON=/path/to/python       the Python to use (python3, else the newest of 3.10 and later)
# DISTDOCTOR_VENV=DIR          another place than .venv
# TORCH_INDEX=URL              see scripts/torch.sh

cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${DISTDOCTOR_VENV:-.venv}
export PIP_DISABLE_PIP_VERSION_CHECK=1 # its notice is not about this project
. scripts/torch.sh

say() { printf '== %s\n' "$*" >&2; }

# Whether a command can have processes of its own, a PID namespace, without being somebody else in there; not with
# ONE_AFTER_ANOTHER=1.
can_be_apart() { [ -z "${ONE_AFTER_ANOTHER:-}" ] && setpriv --pdeathsig KILL unshare --pid --fork --kill-child --mount-proc true 2>/dev/null; }

# run_apart NICENESS COMMAND...: it sees no processes but those that it starts, and none outlives it. The shell is process 1
# there. Where a kernel shares the processors out by session first, nice counts within a session only, and the session
# itself gets a niceness (man 7 sched, "The autogroup feature"): what is to be nice is a session of its own with that one.
run_apart() {
    local own=()
    [ "$1" = 0 ] || own=(nice -n "$1" setsid)
    setpriv --pdeathsig KILL unshare --pid --fork --kill-child --mount-proc ${own[@]+"${own[@]}"} bash -c '
        group=/proc/self/autogroup
        for again in 1 2 3; do # who is not root may write it ten times a second, all together
            [ "$0" != 0 ] && [ -w $group ] && ! echo "$0" >$group || break
            sleep 0.2
        done 2>/dev/null
        "$@"
        exit $?' "$@"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# apt_install PROGRAM:PACKAGE...: install the packages whose programs are not there. What cannot be installed is told.
apt_install() {
    local missing=() pair
    for pair in "$@"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null || { [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; }; then
        say "not installed, and no apt-get or root to do it: ${missing[*]}"
        return 0
    fi
    say "installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get install -y -q --no-install-recommends "$@" || { apt-get update -q && apt-get install -y -q --no-install-recommends "$@"; }' \
        sh "${missing[@]}" >&2 || say "could not be installed: ${missing[*]}"
}

# What the lab is made of, and a compiler for the stand-in of the GPUs' library.
install_lab_tools() {
    apt_install ip:iproute2 nft:nftables iptables:iptables tc:iproute2 ps:procps unshare:util-linux nsenter:util-linux
    command -v cc >/dev/null || apt_install cc:gcc no-such-program:libc6-dev
}

# What starts jobs, for tests/launchers. Where systemd runs, these packages would start daemons: a person may want that.
install_launchers() {
    [ -d /run/systemd/system ] ||
        apt_install slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge sshd:openssh-server \
            mpirun.openmpi:openmpi-bin mpiexec.hydra:mpich
}

find_python() {
    local candidate candidates=(python3 python3.14 python3.13 python3.12 python3.11 python3.10)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    say "${PYTHON:+PYTHON=$PYTHON is }no Python 3.10 or newer; name one with PYTHON=/path/to/python"
    return 1
}

has_venv() { "$1" -c 'import venv; from ensurepip import bootstrap' 2>/dev/null; }

# What a Python is: its version and where it is installed, the same for an environment and what it was made of.
identity() { "$1" -c 'import sys; print(sys.version.split()[0], sys.base_prefix)' 2>/dev/null; }

# Why the environment that is there cannot be used; says nothing where it can.
why_anew() {
    local place
    if ! "$venv/bin/python" -c '' 2>/dev/null; then
        echo "its Python is gone or was never there"
    elif ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        echo "its Python is older than 3.10"
    elif ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
        echo "it was left half-made (no pip), or its Python was replaced by another version"
    elif [ -e "$venv/.installing" ]; then
        echo "its set-up was interrupted"
    elif [ -n "${PYTHON:-}" ] && [ "$(identity "$PYTHON")" != "$(identity "$venv/bin/python")" ]; then
        echo "it is of Python $(identity "$venv/bin/python"), PYTHON is $(identity "$PYTHON")"
    elif place=$(place_of_venv) && [ -n "$place" ] && ! [ "$place" -ef "$venv" ]; then
        echo "it was made for $place, which is another folder"
    fi
}

# Where it was made; its programs name that place in their first lines.
place_of_venv() {
    cat "$venv/.made-for" 2>/dev/null || sed -n 's/^VIRTUAL_ENV="\(.*\)"$/\1/p' "$venv/bin/activate" 2>/dev/null
}

# Only what these scripts made is removed: .venv, and what they marked elsewhere.
remove_venv() {
    if [ -n "${DISTDOCTOR_VENV:-}" ] && [ -n "$(ls -A "$venv" 2>/dev/null)" ] &&
        [ -z "$(ls -d "$venv"/.made-for "$venv"/.installed* 2>/dev/null)" ]; then
        say "$venv cannot be used: $1; it was not made here: remove it yourself or set DISTDOCTOR_VENV to another folder"
        return 1
    fi
    say "making $venv anew: $1"
    rm -rf "$venv"
}

# The Python to make an environment with; says what to install where its venv module is missing (Debian has it in a
# package of its own).
python_with_venv() {
    local python package
    python=$(find_python) || return 1
    if ! has_venv "$python"; then
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        apt_install "no-such-program:$package"
        has_venv "$python" || {
            say "$python cannot make a virtual environment with pip. As root: apt-get install $package" \
                "(or name another Python with PYTHON=/path/to/python)"
            return 1
        }
    fi
    echo "$python"
}

new_venv() {
    local python=$1 options=()
    # A torch that is already on this machine is the one to check. (That of a virtual environment which is active
    # would not be seen through --system-site-packages; only what lies behind it would.)
    if "$python" -c 'import sys; assert sys.prefix == sys.base_prefix; import torch' 2>/dev/null; then
        options+=(--system-site-packages)
    fi
    say "making $venv with Python $(identity "$python")"
    mkdir -p "$venv" && (cd "$venv" && pwd -P >.made-for) || return 1
    "$python" -m venv ${options[@]+"${options[@]}"} "$venv" >&2 || {
        rm -rf "$venv"
        say "$python -m venv failed; nothing is left of it"
        return 1
    }
}

# pip_install ARGUMENTS: an installation that was interrupted is known by the file that it leaves.
pip_install() {
    : >"$venv/.installing" &&
        "$venv/bin/python" -m pip install -c constraints.txt "$@" >&2 &&
        rm -f "$venv/.installing"
}

install_distdoctor() {
    local extras=$1 stamp wanted
    stamp=$venv/.installed${extras:+-$extras}
    wanted=$({ pwd -P && cat pyproject.toml constraints.txt; } | cksum)
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        say "installing distdoctor${extras:+ with its tools for $extras}"
        pip_install -q -e ".${extras:+[$extras]}" && echo "$wanted" >"$stamp"
    fi
}

# In a process of its own: one set-up at a time in a checkout, and files that others may read, whatever the umask is.
make_venv() (
    umask 022
    if command -v flock >/dev/null; then
        exec 9<.
        flock -n 9 || { say "another set-up is at work here: waiting for it" && flock 9; }
    fi
    reason=$([ ! -e "$venv" ] && [ ! -L "$venv" ] || why_anew)
    if [ -n "$reason" ] || [ ! -e "$venv/bin/python" ]; then
        python=$(python_with_venv) || exit 1
        [ -z "$reason" ] || remove_venv "$reason" || exit 1
        new_venv "$python" || exit 1
    fi
    install_torch && install_distdoctor "${1:-}"
)

# failed_tests CACHE: the names of the tests that pytest has kept there as failed, sorted; none where there is no such file.
failed_tests() { sed -n 's/^  "\(.*\)": true,\{0,1\}$/\1/p' "$1/v/cache/lastfailed" 2>/dev/null | LC_ALL=C sort || :; }

# second_try CACHE COMMAND...: run what failed once more, and keep in $second the names of the tests that pass now.
second=()
second_try() {
    local first failed=0
    first=$(failed_tests "$1")
    "${@:2}" || failed=$?
    [ -z "$first" ] ||
        mapfile -t -O ${#second[@]} second < <(failed_tests "$1" | LC_ALL=C comm -23 <(printf '%s\n' "$first") -)
    return "$failed"
}

# A test that needs two tries has a fault, or has found one.
say_second_tries() {
    [ ${#second[@]} = 0 ] || { say "passed only on the second try:" && printf '    %s\n' "${second[@]}" >&2; }
}

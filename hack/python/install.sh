#!/bin/sh
# Installs versions of kopf, each into a virtual environment of its own. For example, this makes bin/kopf-1.44 and bin/kopf-1.45:
#
#   install.sh bin kopf-1.44 kopf-1.45
#
# The files kopf-*.txt pin all packages. An environment that was made from the same file is kept.
#
# Without Python 3.11, venv, pip or the package index, the script says what is missing, adds a line to the file SKIPPED_CHECKS if that is
# set, and exits with status 75.
set -u

bin=$1
shift
here=$(dirname "$0")

skip() {
	echo "kopf: SKIPPED: $1" >&2
	if [ -n "${SKIPPED_CHECKS:-}" ]; then
		echo "kopf: $1" >>"$SKIPPED_CHECKS"
	fi
	exit 75
}

python=
for candidate in python3 python3.15 python3.14 python3.13 python3.12 python3.11; do
	if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		python=$candidate
		break
	fi
done
[ -n "$python" ] || skip "Python 3.11 or newer is missing"
"$python" -c 'import venv, ensurepip' 2>/dev/null || skip "the modules venv and ensurepip of $python are missing"

mkdir -p "$bin" || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
for name in "$@"; do
	pinned=$here/$name.txt
	stamp=$bin/$name/installed.txt
	# An environment is also useless without the Python that created it.
	if cmp -s "$pinned" "$stamp" && "$bin/$name/bin/python" -c 'import kopf' 2>/dev/null; then
		continue
	fi
	echo "installing $name with $("$python" --version)"
	rm -rf "${bin:?}/$name"
	"$python" -m venv "$bin/$name" >"$log" 2>&1 || {
		rm -rf "${bin:?}/$name"
		skip "$python cannot create virtual environments: $(tail -n 1 "$log")"
	}
	if ! "$bin/$name/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --requirement "$pinned" >"$log" 2>&1; then
		rm -rf "${bin:?}/$name"
		if grep -qE 'NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|NameResolutionError|Temporary failure in name' "$log"; then
			skip "the package index is unreachable"
		fi
		cat "$log" >&2
		exit 1
	fi
	cp "$pinned" "$stamp" || exit 1
done

#!/usr/bin/env bash
# Five hospitals' files, from nothing: an authority, an identity and a peer.toml for each, and patients of its own.
#
#   examples/hospitals/prepare.sh DIRECTORY
#
# ROUNDS   after which a peer ends (40; "none" for peers that run until they are stopped)
# HOSTS    "loopback" (the default): all on this machine, ports from PORT (7501) on; "names": each on a host of its
#          name, port 7443, as in compose.yaml
# TACIT, PYTHON   the programs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${1:?the directory to make}
tacit=${TACIT:-tacit}
python=${PYTHON:-python3}
rounds=${ROUNDS:-40}
port=${PORT:-7501}

names=(hospital-a hospital-b hospital-c hospital-d hospital-e)
declare -A sends_to=(          # one-sided trust: a sends to b, but b does not send to a
  [hospital-a]="hospital-b hospital-c"
  [hospital-b]="hospital-c"
  [hospital-c]="hospital-d"
  [hospital-d]="hospital-e hospital-a"
  [hospital-e]="hospital-a"
)
declare -A address listen operations
for k in "${!names[@]}"; do
  name=${names[k]}
  case ${HOSTS:-loopback} in
    loopback) address[$name]="127.0.0.1:$((port + k))"; listen[$name]=${address[$name]}; operations[$name]=0 ;;
    names) address[$name]="$name:7443"; listen[$name]="0.0.0.0:7443"; operations[$name]=9100 ;;
    *) echo "HOSTS=$HOSTS: expected loopback or names" >&2; exit 2 ;;
  esac
done
quoted() { local out="" name; for name in "$@"; do out+="${out:+, }\"$name\""; done; echo "$out"; }

if [ -e "$work" ]; then
  echo "$work is there already: remove it, or name another directory" >&2
  exit 2
fi
mkdir -p "$work"
cp "$here/job.toml" "$work/job.toml"
"$tacit" peer init-ca "$work/ca" --name "ward study"

for k in "${!names[@]}"; do
  name=${names[k]}
  mkdir -p "$work/$name"
  # At the hospital: a key that stays there, and a request. At the authority: a certificate for just this name.
  "$tacit" peer request "$name" --out "$work/$name/identity" > /dev/null
  "$tacit" peer issue "$name" --csr "$work/$name/identity/$name.csr" --ca "$work/ca" --out "$work/$name.crt" > /dev/null
  "$tacit" peer install "$work/$name.crt" --ca "$work/ca/ca.crt" --out "$work/$name/identity"
  hears=()
  for other in "${names[@]}"; do
    case " ${sends_to[$other]} " in *" $name "*) hears+=("$other") ;; esac
  done
  {
    echo 'job = "../job.toml"'
    echo
    echo '[peer]'
    echo "name = \"$name\""
    echo "listen = \"${listen[$name]}\""
    echo
    echo '[links.peers]'
    echo "sends_to = [$(quoted ${sends_to[$name]})]"
    echo "hears = [$(quoted "${hears[@]}")]"
    echo
    echo '[addresses]'
    for other in ${sends_to[$name]}; do echo "$other = \"${address[$other]}\""; done
    echo
    echo '[privacy]                 # a record is used in one round, so the run costs it what one release does'
    echo 'epsilon = 4.0'
    echo 'witness = "witness.json"  # on another disk, where there is one'
    echo
    echo '[stream]'
    echo 'kind = "csv"'
    echo 'path = "patients.csv"'
    echo 'label = "readmitted"'
    echo
    echo '[rounds]'
    echo 'deadline = 2.0'
    if [ "$rounds" != none ]; then echo "last = $rounds"; fi
    echo
    echo '[operations]              # on 127.0.0.1'
    echo "port = ${operations[$name]}"
  } > "$work/$name/peer.toml"
  if [ "$rounds" = none ]; then patients=4000; else patients=$((rounds * 8)); fi
  "$python" "$here/patients.py" "$work/$name/patients.csv" "$patients" "$k"
done
"$tacit" peer check "$work"/*/peer.toml

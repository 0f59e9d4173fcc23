#!/bin/bash
# A job that checks the disk every night and reports only if it is nearly full: bash examples/scheduled-job.sh
set -euo pipefail
home=${AGENTD_HOME:-$HOME/.agentd}
mkdir -p "$home/scripts"

# The agent reads the output of the script. The last line skips the agent when the disk has space.
cat >"$home/scripts/disk.sh" <<'SCRIPT'
#!/bin/sh
used=$(df -P / | awk 'NR == 2 { sub("%", "", $5); print $5 }')
echo "The disk is ${used}% full."
[ "$used" -gt 90 ] || echo '{"wakeAgent": false}'
SCRIPT

agentd cron create "0 3 * * *" "Say in one sentence what to delete." --script disk.sh --name disk --deliver local
agentd cron run disk --wait # now, to see that it works
agentd cron list

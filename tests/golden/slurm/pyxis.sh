#!/bin/bash
#SBATCH --nice=100
#SBATCH --job-name=codellama-chess
#SBATCH --comment=fsdp-run:5f0c
#SBATCH --partition=gpu
#SBATCH --reservation=course
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=10
#SBATCH --gpus-per-node=2
#SBATCH --time=04:00:00
#SBATCH --array=0-0
#SBATCH --chdir=/project
#SBATCH --output=%x-%j.out
#SBATCH --error=%x-%j.err
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#
# One run per task of a job array. fsdp-run replaces the names in double braces by quoted values or
# whole lines. To change this script, copy it, name the copy in slurm.template, and keep the names.

# Ranks and rendezvous come from srun, whatever the shell that submitted this had been told.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT OMP_NUM_THREADS
unset GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_RANK ROLE_NAME ROLE_WORLD_SIZE
unset "${!TORCHELASTIC_@}" "${!TORCH_DISTRIBUTED_@}" "${!PET_@}" "${!OMPI_COMM_WORLD_@}" "${!PMI_@}" \
  "${!PMIX_@}" "${!MPI_LOCAL@}" "${!MV2_COMM_WORLD_@}"

fail() {
  echo "fsdp-run: $*" >&2
  exit 1
}
cd /project || fail "no such folder on $SLURMD_NODENAME: put it on a shared file system"

command -v module >/dev/null || source /etc/profile
module purge
module load gcc/12.2 cuda/12.4 || fail "a module of slurm.modules cannot be loaded"
export NCCL_SOCKET_IFNAME=ib0
export HF_HUB_OFFLINE=1
source .venv/bin/activate
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}"
export CUDA_DEVICE_ORDER=PCI_BUS_ID
set -u

# --- This task's run ---

specs=(
  /project/results/runs/chess/2xFSDP-0123abcd/run.yaml
)
configurations=(
  '2xFSDP: 2 GPUs on 1 node, total batch 8 = 2 GPUs x per-device batch 4 x accumulation 1'
)
max_restarts=3
keeps_checkpoints=true

job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
restarts=${SLURM_RESTART_COUNT:-0}
spec=${specs[SLURM_ARRAY_TASK_ID]}
run=${spec%/*}

echo "job $job on $SLURM_JOB_NODELIST, start $((restarts + 1)) of at most $((max_restarts + 1))"
echo "${configurations[SLURM_ARRAY_TASK_ID]}, OMP_NUM_THREADS $OMP_NUM_THREADS"
((restarts <= max_restarts)) ||
  fail "started again $max_restarts times already, which is slurm.max_restarts"

# --- An attempt at it: a folder, launch.json, the ranks, end.json ---

now_ms() { date +%s%3N; }

# write FILE TEXT: complete or not at all.
write() {
  printf '%s\n' "$2" >"$1.partial" && mv -- "$1.partial" "$1"
}

number=1
until mkdir -- "$run/attempt-$number" 2>/dev/null; do
  [[ -e $run/attempt-$number ]] || fail "cannot make $run/attempt-$number on $SLURMD_NODENAME"
  number=$((number + 1))
done
attempt=$run/attempt-$number

if ! write "$attempt/launch.json" '{"job": "'"$job"'", "node_list": "'"$SLURM_JOB_NODELIST"'",
 "host": "'"$SLURMD_NODENAME"'", "started_unix_ms": '"$(now_ms)"'}'; then
  rm -r -- "$attempt"
  fail "cannot write $attempt/launch.json"
fi

# Slurm sends USR1 ahead of the time limit, and TERM when the job is preempted or cancelled. srun
# passes USR1 on, and ranks write a checkpoint and end with status 130; TERM would make it kill them.
stop='' step='' signalled=''
# shellcheck disable=SC2317  # the traps call it
ask_to_stop() {
  stop=${stop:-$1} signalled=yes
  [[ -z $step ]] || kill -USR1 "$step" 2>/dev/null
}
trap 'ask_to_stop time_limit' USR1
trap 'ask_to_stop interrupted' TERM

srun \
  --nodes=2 \
  --ntasks=4 \
  --ntasks-per-node=2 \
  --cpus-per-task=10 \
  --export=ALL \
  --wait=60 \
  --kill-on-bad-exit=0 \
  --gpus-per-node=2 \
  --network=sn_all \
  '--container-image=registry.example.org#course/fsdp-run:1' \
  --container-mounts=/project:/project,/project/data:/project/data,/project/models:/project/models,/project/results/runs/chess:/project/results/runs/chess \
  --container-workdir=/project \
  --no-container-mount-home \
  --output="${attempt//'%'/%%}/rank%t.log" \
  /opt/fsdp-run/build/cuda/fsdp-train --spec "$spec" --attempt "$number" </dev/null 2>"$attempt/srun.log" &
step=$!
[[ -z $stop ]] || kill -USR1 "$step" 2>/dev/null

# A signal ends bash's wait while srun goes on.
status=127 signalled=yes
while [[ -n $signalled ]]; do
  signalled=''
  wait "$step"
  result=$?
  [[ $result -eq 127 ]] || status=$result
done
trap '' USR1 TERM

cat -- "$attempt/srun.log" >&2

# Whether srun, or slurmstepd in the log of a rank, has written one of these words.
slurm_says() {
  grep -qsE "(srun|slurmstepd)[^ ]*: error: .*($1)" -- "$attempt/srun.log" "$attempt"/rank*.log
}

# A preemption with a grace time asks the ranks alone, and the job goes on without them.
asked_ranks_alone=false
[[ $status -ne 130 || -n $stop ]] || stop=interrupted asked_ranks_alone=true

outcome=exited reason=''
if [[ $status -ne 0 ]]; then
  outcome=${stop:-failed}
  [[ -n $stop ]] || reason="srun exited with status $status"
  if slurm_says 'DUE TO NODE FAILURE|Node failure on'; then
    outcome=node_failed reason='a node of the job failed'
  elif slurm_says 'oom[-_]kill event|: Out Of Memory'; then
    outcome=out_of_memory reason="the job's memory limit (slurm.mem) was reached"
  fi
fi
write "$attempt/end.json" '{"ended_unix_ms": '"$(now_ms)"', "outcome": "'"$outcome"'",
 "reason": "'"$reason"'", "first_rank": -1}' || echo "fsdp-run: cannot write $attempt/end.json" >&2
echo "attempt $number: $outcome${reason:+, $reason}"

# Back to the queue, unless Slurm is ending the job: what was cancelled stays so.
goes_on=false
[[ $outcome != time_limit ]] || goes_on=$keeps_checkpoints
[[ $outcome != interrupted ]] || goes_on=$asked_ranks_alone
if [[ $goes_on == true ]] && ((restarts < max_restarts)) &&
  [[ $(squeue --noheader --jobs="$job" --format=%T) == RUNNING ]]; then
  scontrol requeue "$job"
fi
exit "$status"

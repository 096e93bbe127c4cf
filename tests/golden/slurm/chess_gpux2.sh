#!/bin/bash
#SBATCH --job-name=chess
#SBATCH --partition=gpu
#SBATCH --reservation=course
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=10
#SBATCH --gres=gpu:2
#SBATCH --time=04:00:00
#SBATCH --array=0-0
#SBATCH --chdir=/project
#SBATCH --output=%x-%j.out
#SBATCH --error=%x-%j.err
#SBATCH --open-mode=append
#SBATCH --requeue
#
# A job of an experiment: the modules and the environment of its runs, then fsdp-run, which starts
# them by srun. In an array it starts the run of this task. fsdp-run replaces the names in double
# braces by quoted values or whole lines. To change this script, copy it, name the copy in
# slurm.template, and keep the names.

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
module load python/3.11 cuda/12.4 || fail "a module of slurm.modules cannot be loaded"
trap '((${#BASH_SOURCE[@]} > 1)) || { mapfile -t -s $((LINENO - 1)) -n 1 <"$0"; fail "a line of slurm.prologue failed: ${MAPFILE[0]}"; }' ERR
source /shared/venv/bin/activate
trap - ERR
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}"
export CUDA_DEVICE_ORDER=PCI_BUS_ID

exec /project/build/cuda/fsdp-run attempt /project/results/slurm/chess-5f0c

// MKL asks this function whether the CPU is Intel's before it takes its AVX-512 path. libtorch_cpu
// carries MKL's answer; a program that exports its own comes first. Undocumented by Intel, so built
// only with FSDP_MKL_AVX512.
extern "C" int mkl_serv_intel_cpu_true() { return 1; }

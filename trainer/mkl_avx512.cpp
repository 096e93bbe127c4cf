// MKL asks this function whether the CPU is Intel's before it takes its AVX-512 path. libtorch_cpu
// contains MKL's own version, but a version that the program exports has precedence. Intel does not
// document the function, so this file is built only with FSDP_MKL_AVX512.
extern "C" int mkl_serv_intel_cpu_true() { return 1; }

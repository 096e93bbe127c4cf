// libtorch looks up these functions of the driver, but calls them only for kernels that it compiles
// at run time. They ignore their arguments, so the header is not included.
extern "C" {

#define NOT_FAKED(function) \
  int function() { return 801; }  // CUDA_ERROR_NOT_SUPPORTED

NOT_FAKED(cuCtxSetCurrent)
NOT_FAKED(cuDevicePrimaryCtxRetain)
NOT_FAKED(cuFuncGetAttribute)
NOT_FAKED(cuFuncSetAttribute)
NOT_FAKED(cuFuncSetCacheConfig)
NOT_FAKED(cuGetErrorString)
NOT_FAKED(cuLaunchCooperativeKernel)
NOT_FAKED(cuLaunchKernel)
NOT_FAKED(cuLinkAddData_v2)
NOT_FAKED(cuLinkComplete)
NOT_FAKED(cuLinkCreate_v2)
NOT_FAKED(cuModuleGetFunction)
NOT_FAKED(cuModuleLoad)
NOT_FAKED(cuModuleLoadData)
NOT_FAKED(cuModuleLoadDataEx)
NOT_FAKED(cuModuleUnload)
NOT_FAKED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOT_FAKED(cuPointerGetAttribute)
NOT_FAKED(cuTensorMapEncodeTiled)

}  // extern "C"

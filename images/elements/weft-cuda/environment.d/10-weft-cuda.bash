: "${WEFT_CUDA_TOOLKIT:?weft-cuda needs WEFT_CUDA_TOOLKIT, a package such as cuda-toolkit-12-8}"
: "${WEFT_CUDA_DISTRO:?weft-cuda needs WEFT_CUDA_DISTRO in the words of NVIDIA: ubuntu2404, debian12, rhel9}"
export WEFT_CUDA_TOOLKIT WEFT_CUDA_DISTRO
export WEFT_CUDA_DRIVER=${WEFT_CUDA_DRIVER:-nvidia-open}
export WEFT_CUDA_PACKAGES=${WEFT_CUDA_PACKAGES:-}
export WEFT_CUDA_REPOSITORIES=${WEFT_CUDA_REPOSITORIES:-https://developer.download.nvidia.com/compute/cuda/repos}
export WEFT_CUDA_KEYRING=${WEFT_CUDA_KEYRING:-cuda-keyring_1.1-1_all.deb}

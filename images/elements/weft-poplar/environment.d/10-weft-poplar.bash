: "${WEFT_POPLAR_SDK:?weft-poplar needs WEFT_POPLAR_SDK, the path of the archive of the Poplar SDK}"
: "${WEFT_VIPU_CLIENT:?weft-poplar needs WEFT_VIPU_CLIENT, the path of an archive with the client vipu}"
export WEFT_POPLAR_SDK WEFT_VIPU_CLIENT
export WEFT_POPLAR_SDK_SHA256=${WEFT_POPLAR_SDK_SHA256:-}
export WEFT_VIPU_CLIENT_SHA256=${WEFT_VIPU_CLIENT_SHA256:-}

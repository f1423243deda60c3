if [ -z "${WEFT_DOCA_URL:-}" ]; then
    : "${WEFT_DOCA_VERSION:?weft-doca-ofed needs WEFT_DOCA_VERSION, such as 3.1.0, or WEFT_DOCA_URL}"
    : "${WEFT_DOCA_DISTRO:?weft-doca-ofed needs WEFT_DOCA_DISTRO in the words of NVIDIA: ubuntu24.04, debian12.5, rhel9}"
fi
export WEFT_DOCA_VERSION=${WEFT_DOCA_VERSION:-}
export WEFT_DOCA_DISTRO=${WEFT_DOCA_DISTRO:-}
export WEFT_DOCA_URL=${WEFT_DOCA_URL:-}
export WEFT_DOCA_REPOSITORIES=${WEFT_DOCA_REPOSITORIES:-https://linux.mellanox.com/public/repo/doca}
export WEFT_DOCA_KEY_URL=${WEFT_DOCA_KEY_URL:-$WEFT_DOCA_REPOSITORIES/GPG-KEY-Mellanox.pub}
export WEFT_DOCA_PACKAGES=${WEFT_DOCA_PACKAGES:-doca-ofed}

# In the order in which they are loaded; mlx4_core and mlx4_ib for ConnectX-3.
export WEFT_IPOIB_MODULES=${WEFT_IPOIB_MODULES:-"mlx5_core mlx5_ib ib_ipoib ib_umad"}

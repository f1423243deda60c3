# The pod's P_Key for programs of login shells; what isn't clear is left to the user (weft-pkeys says why).
for weft_pkeys_line in $(/usr/local/bin/weft-pkeys 2> /dev/null || true); do
    export "${weft_pkeys_line?}"
done
unset weft_pkeys_line

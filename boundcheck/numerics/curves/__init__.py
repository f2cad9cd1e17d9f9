"""Error curves (`itd_*`, `aid_*`) and the quantities in the proofs (`observ*`), computed for all t at once."""

"""Everything at every t at once: error curves (`itd_*`, `aid_*`) and the quantities in the proofs (`observ*`)."""

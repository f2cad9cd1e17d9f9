"""Everything at every t at once: error curves (`itd_*`, `aid_*`) and what proofs speak of (`observ*`)."""

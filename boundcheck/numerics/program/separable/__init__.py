"""Programs that are sums of functions of one number, or of log-sum-exp, of a linear map that is never formed."""

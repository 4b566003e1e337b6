"""placeholder"""
OWN_DOMAIN = "pinfold.dev"
NRI_DOMAIN = "resource-policy.nri.io"
CRI_DOMAIN = "cri-resource-manager.intel.com"

package e2e

const childEnv = "KOPF_E2E_CHILD"

func child() int { return 0 }

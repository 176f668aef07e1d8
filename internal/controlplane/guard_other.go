//go:build !linux && !darwin

package controlplane

// Here nobody watches: Stop asks the servers to end, and without Stop they remain.
type guard struct{}

func newGuard(string) (*guard, error) { return &guard{}, nil }

func (*guard) wrap(binary string) (string, error) { return binary, nil }

func (*guard) release() {}

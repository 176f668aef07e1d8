//go:build !linux && !darwin

package controlplane

// A Reaper does nothing on this system, so the test process must stop its servers itself.
type Reaper struct{}

// NewReaper returns a reaper that does nothing.
func NewReaper(string) (*Reaper, error) { return &Reaper{}, nil }

// WrapCommand returns the binary unchanged.
func (*Reaper) WrapCommand(binary string) (string, error) { return binary, nil }

// Stop does nothing.
func (*Reaper) Stop() {}

//go:build !linux && !darwin

package reaper

// A Reaper does nothing on this system, so the test process must stop its servers itself.
type Reaper struct{}

// New returns a reaper that does nothing.
func New(string) (*Reaper, error) { return &Reaper{}, nil }

// WrapCommand returns the binary unchanged.
func (*Reaper) WrapCommand(binary string) (string, error) { return binary, nil }

// Stop does nothing.
func (*Reaper) Stop() {}

//go:build !linux && !darwin

package reaper

// Reaper does nothing on this system: the test process must end its servers.
type Guard struct{}

// New returns a reaper that does nothing.
func New(string) (*Guard, error) { return &Guard{}, nil }

// WrapCommand returns the binary unchanged.
func (*Guard) Wrap(binary string) (string, error) { return binary, nil }

// Stop does nothing.
func (*Guard) Release() {}

package peering

import (
	"os"
	"regexp"
	"testing"
	"time"
)

// PEER-10: the identity is that of POD_ID, even if the variable is empty.
func TestIdentity_PodID(t *testing.T) {
	for _, id := range []string{"some-pod-x7", ""} {
		t.Setenv(podID, id)
		if got := newIdentity(time.Now()); got != id {
			t.Errorf("got %q, want %q", got, id)
		}
	}
}

// PEER-11: the identity of an operator contains the user, host, time and a random suffix. PEER-12: the identity of a
// user contains the user and host.
func TestIdentity_Generated(t *testing.T) {
	t.Setenv(podID, "")
	if err := os.Unsetenv(podID); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOGNAME", "somebody")
	form := regexp.MustCompile(`^somebody@([^/@]+)/20201231225959/[a-fh-z0-9]{3}$`)
	now := time.Date(2020, 12, 31, 23, 59, 59, 0, time.FixedZone("east", 3600))
	seen := map[string]bool{}
	for range 20 {
		id := newIdentity(now)
		if !form.MatchString(id) {
			t.Fatalf("got the invalid identity %q", id)
		}
		seen[id] = true
	}
	if len(seen) < 10 {
		t.Errorf("got %d different suffixes, want at least 10", len(seen))
	}
	if got, want := Whoami(), "somebody@"+hostName(); got != want {
		t.Errorf("PEER-12: got %q, want %q", got, want)
	}
}

// PEER-13: the most specific host name is used.
func TestChooseHostName(t *testing.T) {
	for _, test := range []struct {
		want, hostname string
		names          []string
	}{
		{"box.example.com", "box", []string{"box", "localhost", "box.example.com.", "10.0.0.1"}},
		{"box.example.com", "localhost", []string{"1.0.0.10.in-addr.arpa", "10.0.0.1", "::1", "box.example.com", "b.example.com"}},
		{"box", "localhost", []string{"localhost", "box", "10.0.0.1"}},
		{"localhost", "localhost", []string{"localhost", "127.0.0.1"}},
		{"raw", "raw", nil},
		{"mac", "x", []string{"mac.local"}},
		{"mac", "x", []string{"mac.localdomain.local.local"}},
		{"10.0.0.1", "10.0.0.1", []string{"10.0.0.1", "::1"}},
	} {
		if got := chooseHostName(test.hostname, test.names); got != test.want {
			t.Errorf("host name for %q and %v = %q, want %q", test.hostname, test.names, got, test.want)
		}
	}
}

package peering

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/user"
	"strings"
	"time"
)

// podID is the environment variable with the operator's identity. If it is set but empty, the identity is empty.
const podID = "POD_ID"

// alphabet has the characters for the random part of identities. Like kopf, we omit the letter g.
const alphabet = "abcdefhijklmnopqrstuvwxyz0123456789"

// lookupTimeout limits the DNS lookups of the host's name.
const lookupTimeout = 2 * time.Second

// newIdentity returns the value of the variable POD_ID, or a random identity of the form user@host/20201231235959/x7q.
func newIdentity(now time.Time) string {
	if id, set := os.LookupEnv(podID); set {
		return id
	}
	suffix := make([]byte, 3)
	for i := range suffix {
		suffix[i] = alphabet[rand.IntN(len(alphabet))]
	}
	return Whoami() + "/" + now.UTC().Format("20060102150405") + "/" + string(suffix)
}

// Whoami returns the identity of the current user, in the form user@host. It is the default identity of the records that the command kopf
// writes and removes.
func Whoami() string { return currentUser() + "@" + hostName() }

// currentUser returns the user name that Python's getpass would return, or "unknown".
func currentUser() string {
	for _, variable := range []string{"LOGNAME", "USER", "LNAME", "USERNAME"} {
		if name := os.Getenv(variable); name != "" {
			return name
		}
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	names := []string{name}
	addresses, _ := net.DefaultResolver.LookupHost(ctx, name)
	for _, address := range addresses {
		found, _ := net.DefaultResolver.LookupAddr(ctx, address)
		names = append(names, found...)
	}
	return chooseHostName(name, append(names, addresses...))
}

// chooseHostName returns the first name with a domain, or else the first name other than localhost, or else the host name.
func chooseHostName(hostname string, names []string) string {
	best, undotted := "", ""
	for _, name := range names {
		name = strings.TrimSuffix(name, ".")
		_, notIP := netip.ParseAddr(name)
		switch {
		case name == "" || notIP == nil || strings.HasSuffix(name, ".arpa"):
		case strings.Contains(name, "."):
			if best == "" {
				best = name
			}
		case name != "localhost" && undotted == "":
			undotted = name
		}
	}
	if best == "" {
		best = undotted
	}
	if best == "" {
		best = hostname
	}
	return trimLocalDomain(best)
}

func trimLocalDomain(name string) string {
	for {
		shorter := strings.TrimSuffix(strings.TrimSuffix(name, ".local"), ".localdomain")
		if shorter == name {
			return name
		}
		name = shorter
	}
}

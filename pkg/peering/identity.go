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

// podID is the variable that gives an operator its identity, also if it is set to nothing. [wire]
const podID = "POD_ID"

// alphabet of the random part of identities: it has no g. [wire]
const alphabet = "abcdefhijklmnopqrstuvwxyz0123456789"

// lookUpTimeout bounds the questions about the host's name; without answers, it is as it is.
const lookUpTimeout = 2 * time.Second

// newIdentity is a name that no other operator has, not even this one when it is started again: $POD_ID, or one of
// the form user@host/20201231235959/x7q. [wire]
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

// Whoami is the identity of a person who freezes and resumes operators: user@host. [wire]
func Whoami() string { return userName() + "@" + hostName() }

// userName follows Python's getpass.
func userName() string {
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
	ctx, cancel := context.WithTimeout(context.Background(), lookUpTimeout)
	defer cancel()
	names := []string{name}
	addresses, _ := net.DefaultResolver.LookupHost(ctx, name)
	for _, address := range addresses {
		found, _ := net.DefaultResolver.LookupAddr(ctx, address)
		names = append(names, found...)
	}
	return bestHost(name, append(names, addresses...))
}

// bestHost chooses the name that tells most: one with a domain, or else one that is not everybody's.
func bestHost(hostname string, names []string) string {
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
	return withoutLocal(best)
}

func withoutLocal(name string) string {
	for {
		shorter := strings.TrimSuffix(strings.TrimSuffix(name, ".local"), ".localdomain")
		if shorter == name {
			return name
		}
		name = shorter
	}
}

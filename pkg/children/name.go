package children

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	maxName    = 63 // limit for DNS labels and label values
	hashLength = 8
)

var invalidNameCharacters = regexp.MustCompile(`[^a-z0-9-]`)

// Name returns the name of an owner's child in a role, such as "db-replica" for the owner "db" and the role "replica". The same owner and
// role always give the same name. If the name isn't a valid DNS label of at most 63 characters, it is sanitized and shortened, and a hash
// is appended.
//
// The role must be unique among the owner's children of one kind. Children of different owners can still get the same name: "db" with the
// role "a-b", and "db-a" with the role "b". [Owner.Apply] and [Owner.Create] then return an error for the second child, because the
// existing one belongs to the first owner. Use roles without a hyphen to avoid this.
func Name(owner client.Object, role string) string {
	return dnsLabel(owner.GetName()+"-"+role, maxName)
}

// dnsLabel keeps valid DNS labels within the limit. It sanitizes any other name and appends a hash.
func dnsLabel(name string, limit int) string {
	sanitized := strings.Trim(invalidNameCharacters.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if sanitized == name && len(name) <= limit {
		return name
	}
	sanitized = sanitized[:min(limit-hashLength-1, len(sanitized))]
	return strings.TrimLeft(strings.TrimRight(sanitized, "-")+"-", "-") + hash([]byte(name))[:hashLength]
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

package children

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	maxName    = 63 // what is a DNS label, and fits into the value of a label
	hashLength = 8
)

var notInNames = regexp.MustCompile(`[^a-z0-9-]`)

// Name returns a name for a child, always the same for the same owner and the same role: "db" has "db-replica". If that
// is no DNS label, because of its length of 63 characters at most or of what is in it, it is cut and mended, with
// a hash behind it that keeps it different from others.
//
// The role must be different for each child of one kind. The name does not depend on the uid of the owner. Two owners may come to
// one name: "db" with the role "a-b", and "db-a" with the role "b". The second one is refused by [Owner.Apply] and [Owner.Create], as
// the child belongs to the first; use roles without a hyphen if owners may be named like that.
func Name(owner client.Object, role string) string {
	return dnsLabel(owner.GetName()+"-"+role, maxName)
}

// dnsLabel keeps names that are DNS labels within the limit, and has a hash behind all others.
func dnsLabel(name string, limit int) string {
	mended := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if mended == name && len(name) <= limit {
		return name
	}
	mended = mended[:min(limit-hashLength-1, len(mended))]
	return strings.TrimLeft(strings.TrimRight(mended, "-")+"-", "-") + hash([]byte(name))[:hashLength]
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

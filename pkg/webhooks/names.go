package webhooks

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// A named hook is one among others: its path and its name differ from theirs.
type named struct {
	Hook
	gvk  schema.GroupVersionKind
	path string // below the server's
	name string // before the domain of the configuration
}

// nameAll gives the hooks their paths and names. They are made of the id as kopf does it; of ids that
// several hooks have, with what tells the hooks apart.
func nameAll(hooks []Hook, gvks []schema.GroupVersionKind) ([]named, error) {
	count := map[string]int{}
	for _, h := range hooks {
		count[h.id]++
	}
	var problems []error
	out := make([]named, len(hooks))
	paths, names := map[string]Hook{}, map[string]Hook{}
	for i, h := range hooks {
		id := h.id
		if count[id] > 1 {
			id = fmt.Sprintf("%s/%s.%s", id, h.kind, strings.ToLower(gvks[i].Kind))
			if group := gvks[i].Group; group != "" {
				id += "." + group
			}
		}
		out[i] = named{Hook: h, gvk: gvks[i], path: quote(id), name: normalize(id)}
		if other, taken := paths[out[i].path]; taken {
			problems = append(problems, fmt.Errorf("%s: there is a handler %s already: rename one", h.where(), other.where()))
			continue
		}
		paths[out[i].path] = h
		if out[i].name == "" {
			problems = append(problems, fmt.Errorf("%s: no name can be made of the id: use letters and digits", h.where()))
		} else if other, taken := names[string(h.kind)+out[i].name]; taken {
			problems = append(problems, fmt.Errorf("%s: its name in the configuration, %q, would be that of %s, too: rename one",
				h.where(), out[i].name, other.where()))
		}
		names[string(h.kind)+out[i].name] = h
	}
	return out, errors.Join(problems...)
}

// quote makes an id a path: slashes stay, everything else that is not safe is escaped.
func quote(id string) string {
	segments := strings.Split(id, "/")
	for i, segment := range segments {
		// As in kopf, also for what a path could have unescaped.
		segments[i] = strings.NewReplacer("+", "%20").Replace(url.QueryEscape(segment))
	}
	return strings.Join(segments, "/")
}

// normalize makes an id the beginning of a DNS name: as kopf does it, and then what kopf leaves undone, to lower
// case and with each part trimmed.
func normalize(id string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(id) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			b.WriteRune(r)
		case r == '/':
			b.WriteByte('.')
		case r == '_':
			b.WriteByte('-')
		default:
			fmt.Fprintf(&b, "%x", string(r))
		}
	}
	parts := strings.FieldsFunc(b.String(), func(r rune) bool { return r == '.' })
	kept := parts[:0]
	for _, part := range parts {
		if part = strings.Trim(part, "-"); part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ".")
}

// domain is what the names in a configuration end with. They need three parts, so a configuration without a dot
// in its name gets a domain after it.
func domain(configuration string) string {
	if strings.Contains(configuration, ".") {
		return configuration
	}
	return configuration + ".kopf.dev"
}

// checkName tells whether the API server takes the full name.
func checkName(name string) error {
	if err := validation.Subdomain(name); err != nil {
		return fmt.Errorf("its name in the configuration would be %q, which cannot be: %w", name, err)
	}
	return nil
}

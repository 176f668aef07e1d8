package webhooks

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// namedHook is a hook with its unique path and name.
type namedHook struct {
	Hook
	gvk  schema.GroupVersionKind
	path string // path without the path prefix of the server
	name string // name without the suffix of the configuration
}

// nameHooks derives paths and names from the ids, as kopf does. If several hooks have the same id, it appends the kinds of handler and
// object. It doesn't name invalid hooks, although their ids count, or hooks with the path of an earlier hook.
func nameHooks(hooks []Hook, gvks []schema.GroupVersionKind, invalid []bool) ([]namedHook, error) {
	count := map[string]int{}
	for _, h := range hooks {
		count[h.id]++
	}
	var problems []error
	out := make([]namedHook, len(hooks))
	paths, names := map[string]Hook{}, map[string]Hook{}
	for i, h := range hooks {
		if invalid[i] {
			continue
		}
		id := h.id
		if count[id] > 1 {
			id = fmt.Sprintf("%s/%s.%s", id, h.kind, strings.ToLower(gvks[i].Kind))
			if group := gvks[i].Group; group != "" {
				id += "." + group
			}
		}
		out[i] = namedHook{Hook: h, gvk: gvks[i], path: toPath(id), name: toDNSName(id)}
		if other, taken := paths[out[i].path]; taken {
			problems = append(problems, fmt.Errorf("%s: the handler %s exists already: rename one of them", h.describe(), other.describe()))
			out[i].name = "" // the other hook's name is checked
			continue
		}
		paths[out[i].path] = h
		if out[i].name == "" {
			problems = append(problems, fmt.Errorf("%s: the id has no letters and digits: use at least one", h.describe()))
		} else if other, taken := names[string(h.kind)+out[i].name]; taken {
			problems = append(problems, fmt.Errorf("%s: its name in the configuration, %q, is also the name of %s: rename one of them",
				h.describe(), out[i].name, other.describe()))
		}
		names[string(h.kind)+out[i].name] = h
	}
	return out, errors.Join(problems...)
}

// toPath returns the path of an id. It keeps slashes and escapes other reserved characters.
func toPath(id string) string {
	segments := strings.Split(id, "/")
	for i, segment := range segments {
		// Like kopf, QueryEscape escapes all reserved characters. url.PathEscape would keep some of them.
		segments[i] = strings.NewReplacer("+", "%20").Replace(url.QueryEscape(segment))
	}
	return strings.Join(segments, "/")
}

// toDNSName converts an id to the start of a DNS name, as kopf does. Unlike kopf, it also converts the id to lower case and removes empty
// parts and outer hyphens of parts.
func toDNSName(id string) string {
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

// nameSuffix returns what the names of a configuration's entries end with. The names need three parts, so nameSuffix adds a domain to a
// configuration name without a dot.
func nameSuffix(configuration string) string {
	if strings.Contains(configuration, ".") {
		return configuration
	}
	return configuration + ".kopf.dev"
}

// checkEntryName returns an error if the API server would reject the full name of an entry.
func checkEntryName(name string) error {
	if err := validation.Subdomain(name); err != nil {
		return fmt.Errorf("its name in the configuration would be %q, which is invalid: %w", name, err)
	}
	return nil
}

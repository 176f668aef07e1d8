// Package validation checks names and durations of declarations, and explains a mistake in one plain sentence.
//
//	if err := validation.QualifiedName(key); err != nil {
//		return fmt.Errorf("Label(%q) can never match: %w", key, err)
//	}
//
// The rules for names are those of the API server (k8s.io/apimachinery/pkg/util/validation). Only the explanations are different:
// they name the wrong character and what is allowed, and contain no regular expressions.
package validation

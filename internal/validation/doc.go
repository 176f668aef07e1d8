// Package validation checks names and durations of declarations, and explains each mistake in one sentence.
//
//	if err := validation.QualifiedName(key); err != nil {
//		return fmt.Errorf("Label(%q) can never match: %w", key, err)
//	}
//
// The rules for names are the rules of the API server (k8s.io/apimachinery/pkg/util/validation). The explanations name
// the invalid character and the allowed characters, and contain no regular expressions.
package validation

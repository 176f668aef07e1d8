package explore

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Generator makes random values from a schema. It follows types, required fields, enums and bounds, and for strings the format, the
// pattern or the length. Values can still be invalid, so the caller must validate them. The same seed makes the same values.
type Generator struct {
	rand *rand.Rand
}

// NewGenerator returns a generator for a seed.
func NewGenerator(seed uint64) *Generator {
	return &Generator{rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // each run should generate the same values
}

// maxDepth is how deep optional values may be nested.
const maxDepth = 6

// RandomFields returns random top-level fields of an object, without apiVersion, kind, metadata and status.
func (g *Generator) RandomFields(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	out := map[string]any{}
	for _, name := range sortedKeys(schema.Properties) {
		if slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			continue
		}
		property := schema.Properties[name]
		out[name] = g.value(&property, 0)
	}
	return out
}

// Vary returns a changed copy of the fields. It replaces or removes one field in each top-level object, and replaces all other top-level
// fields. One time in three, it returns entirely new fields.
func (g *Generator) Vary(schema *apiextensionsv1.JSONSchemaProps, fields map[string]any) map[string]any {
	newFields := g.RandomFields(schema)
	if g.rand.IntN(3) == 0 {
		return newFields
	}
	out := runtime.DeepCopyJSON(fields)
	for _, name := range sortedKeys(newFields) {
		before, isMap := out[name].(map[string]any)
		after, _ := newFields[name].(map[string]any)
		property := schema.Properties[name]
		if !isMap || len(property.Properties) == 0 {
			out[name] = newFields[name]
			continue
		}
		inner := sortedKeys(property.Properties)
		key := inner[g.rand.IntN(len(inner))]
		delete(before, key)
		if value, ok := after[key]; ok {
			before[key] = value
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (g *Generator) value(schema *apiextensionsv1.JSONSchemaProps, depth int) any {
	if len(schema.Enum) > 0 {
		var value any
		if err := json.Unmarshal(schema.Enum[g.rand.IntN(len(schema.Enum))].Raw, &value); err == nil {
			return wholeNumberToInt64(value)
		}
	}
	if schema.XIntOrString {
		if g.rand.IntN(2) == 0 {
			return g.integer(schema)
		}
		return g.text(schema)
	}
	switch schema.Type {
	case "object":
		return g.object(schema, depth)
	case "array":
		return g.array(schema, depth)
	case "integer":
		return g.integer(schema)
	case "number":
		return g.number(schema)
	case "boolean":
		return g.rand.IntN(2) == 0
	case "string":
		return g.text(schema)
	default: // the schema allows any value
		return g.randomWord()
	}
}

// wholeNumberToInt64 converts whole numbers to int64, as the decoder of objects does.
func wholeNumberToInt64(value any) any {
	if f, ok := value.(float64); ok && f == math.Trunc(f) {
		return int64(f)
	}
	return value
}

func (g *Generator) object(schema *apiextensionsv1.JSONSchemaProps, depth int) map[string]any {
	out := map[string]any{}
	for _, name := range sortedKeys(schema.Properties) {
		required := slices.Contains(schema.Required, name)
		if !required && (depth >= maxDepth || g.rand.IntN(5) < 2) {
			continue
		}
		property := schema.Properties[name]
		out[name] = g.value(&property, depth+1)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		for range g.count(schema.MinProperties, schema.MaxProperties) {
			out[g.randomWord()] = g.value(schema.AdditionalProperties.Schema, depth+1)
		}
	}
	return out
}

// count returns a small random number of items or map entries within the bounds.
func (g *Generator) count(least, most *int64) int {
	low, high := int64(0), int64(3)
	if least != nil {
		low, high = *least, max(high, *least+2)
	}
	if most != nil {
		high = min(high, *most)
	}
	if high <= low {
		return int(low)
	}
	return int(low + g.rand.Int64N(high-low+1))
}

func (g *Generator) array(schema *apiextensionsv1.JSONSchemaProps, depth int) []any {
	out := []any{}
	if schema.Items == nil || schema.Items.Schema == nil {
		return out
	}
	seen := map[string]bool{}
	unique := schema.UniqueItems || schema.XListType != nil && *schema.XListType != "atomic"
	for range g.count(schema.MinItems, schema.MaxItems) {
		item := g.value(schema.Items.Schema, depth+1)
		if id := identity(item, schema.XListMapKeys); !unique || !seen[id] {
			seen[id] = true
			out = append(out, item)
		}
	}
	return out
}

// identity returns an item's key in a list of type set or map.
func identity(item any, keys []string) string {
	if fields, ok := item.(map[string]any); ok && len(keys) > 0 {
		only := map[string]any{}
		for _, key := range keys {
			only[key] = fields[key]
		}
		item = only
	}
	text, _ := json.Marshal(item) // can't fail, because item consists of JSON values
	return string(text)
}

// bounds returns a number's bounds. Unless the schema has a maximum, the upper bound is small, because handlers may create that many
// objects.
func bounds(schema *apiextensionsv1.JSONSchemaProps) (low, high float64) {
	low, high = 0, 5
	if schema.Minimum != nil {
		low = *schema.Minimum
		high = max(high, low+5)
	}
	if schema.Maximum != nil {
		high = *schema.Maximum
		low = min(low, high)
	}
	return low, high
}

func (g *Generator) integer(schema *apiextensionsv1.JSONSchemaProps) int64 {
	low, high := bounds(schema)
	first, last := int64(math.Ceil(low)), int64(math.Floor(high))
	if schema.ExclusiveMinimum && float64(first) == low {
		first++
	}
	if schema.ExclusiveMaximum && float64(last) == high {
		last--
	}
	n := first
	if last > first {
		n += g.rand.Int64N(last - first + 1)
	}
	if m := schema.MultipleOf; m != nil && *m >= 1 {
		step := int64(*m)
		if n = n / step * step; n < first {
			n += step
		}
	}
	return n
}

func (g *Generator) number(schema *apiextensionsv1.JSONSchemaProps) any {
	low, high := bounds(schema)
	return low + (high-low)*(1+float64(g.rand.IntN(9)))/10
}

var words = []string{"red", "green", "blue", "one", "two", "three", "a", "b", "c", "x-1", "y-2", "alpha", "beta"}

func (g *Generator) randomWord() string { return words[g.rand.IntN(len(words))] }

func (g *Generator) text(schema *apiextensionsv1.JSONSchemaProps) string {
	switch schema.Format {
	case "date-time":
		return time.Date(2026, time.January, 1+g.rand.IntN(300), g.rand.IntN(24), 0, 0, 0, time.UTC).Format(time.RFC3339)
	case "date":
		return time.Date(2026, time.January, 1+g.rand.IntN(300), 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	case "duration":
		return (time.Duration(1+g.rand.IntN(60)) * time.Minute).String()
	case "uri", "url":
		return "https://example.com/" + g.randomWord()
	case "email":
		return g.randomWord() + "@example.com"
	case "ipv4":
		return "192.0.2.1"
	case "byte":
		return "YQ=="
	}
	if schema.Pattern != "" {
		if pattern, err := syntax.Parse(schema.Pattern, syntax.Perl); err == nil {
			return g.matchingText(pattern)
		}
	}
	text := g.randomWord()
	if least := schema.MinLength; least != nil {
		for int64(len(text)) < *least {
			text += g.randomWord()
		}
	}
	if most := schema.MaxLength; most != nil && int64(len(text)) > *most {
		text = text[:*most]
	}
	return text
}

// matchingText returns a text that matches a simple pattern.
func (g *Generator) matchingText(pattern *syntax.Regexp) string {
	var out strings.Builder
	switch pattern.Op { //nolint:exhaustive // the other operators match the empty text
	case syntax.OpLiteral:
		out.WriteString(string(pattern.Rune))
	case syntax.OpCharClass:
		// The runes are pairs of first and last characters. Printable characters are preferred.
		i := g.rand.IntN(len(pattern.Rune)/2) * 2
		low, high := max(pattern.Rune[i], ' '), min(pattern.Rune[i+1], '~')
		if high < low {
			low, high = pattern.Rune[i], pattern.Rune[i]
		}
		out.WriteRune(low + rune(g.rand.IntN(int(high-low)+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out.WriteByte(byte('a' + g.rand.IntN(26)))
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range pattern.Sub {
			out.WriteString(g.matchingText(sub))
		}
	case syntax.OpAlternate:
		out.WriteString(g.matchingText(pattern.Sub[g.rand.IntN(len(pattern.Sub))]))
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		low, high := 0, 3
		switch pattern.Op { //nolint:exhaustive // OpStar keeps the defaults
		case syntax.OpPlus:
			low = 1
		case syntax.OpQuest:
			high = 1
		case syntax.OpRepeat:
			low, high = pattern.Min, pattern.Max
			if high < 0 {
				high = low + 3
			}
		}
		for range low + g.rand.IntN(high-low+1) {
			out.WriteString(g.matchingText(pattern.Sub[0]))
		}
	}
	return out.String()
}

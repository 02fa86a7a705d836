// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"slices"

	"assay/internal/lists"
)

// colours is the maximum size of a PNG palette.
const colours = 256

// compress returns a PNG with a palette, which is a third of the size: except at edges, pages have few
// colours. A height other than 0 crops the image from the top.
func compress(picture []byte, height int) ([]byte, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	bounds := decoded.Bounds()
	if height > 0 {
		bounds.Max.Y = min(bounds.Max.Y, bounds.Min.Y+height)
	}
	whole := image.NewRGBA(bounds)
	draw.Draw(whole, whole.Bounds(), decoded, decoded.Bounds().Min, draw.Src)
	counts := map[color.RGBA]int{}
	each(whole, func(_, _ int, c color.RGBA) { counts[c]++ })
	palette := choose(counts)
	nearest := make(map[color.RGBA]uint8, len(counts))
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(whole.Bounds(), palette)
	each(whole, func(x, y int, c color.RGBA) { small.SetColorIndex(x, y, nearest[c]) })
	var compressed bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&compressed, small)
	return compressed.Bytes(), err
}

// choose returns a palette: the most frequent colours.
func choose(counts map[color.RGBA]int) color.Palette {
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(number(a), number(b)))
	})
	return lists.Map(all[:min(colours, len(all))], func(c color.RGBA) color.Color { return c })
}

func each(picture *image.RGBA, do func(x, y int, c color.RGBA)) {
	b := picture.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			do(x, y, picture.RGBAAt(x, y))
		}
	}
}

func number(c color.RGBA) uint32 {
	return uint32(c.R)<<24 | uint32(c.G)<<16 | uint32(c.B)<<8 | uint32(c.A)
}

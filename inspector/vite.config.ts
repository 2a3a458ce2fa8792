import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Addresses in the page are relative to its mount prefix, which only the server knows: it completes `./assets/` in
// index.html, and chunks find each other by their own address.
export default defineConfig({
  base: './',
  plugins: [svelte()],
  resolve: { alias: { 'decode-named-character-reference': '/src/content/entities.ts' } },
  build: {
    outDir: '../src/frontdesk/inspector/static',
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { checks: { bundlerTimings: false } },
  },
  worker: { format: 'es' },
});

import { mount as show } from 'svelte';
import './styles/tokens.css';
import './styles/base.css';
import './model/theme.svelte';
import App from './App.svelte';

show(App, { target: document.getElementById('app') as HTMLElement });
